"""What all tests share: the long ones' marker, the installed package, a browser."""

import collections
import contextlib
import gc
import itertools
import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest
from playwright.sync_api import expect, sync_playwright

from tests.families import LONG, RELEASE
from tools.browser import browser_path

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-default-apps",
    "--disable-extensions",
    "--disable-dev-shm-usage",
]
PATIENCE_MS = 120_000
ROOT = Path(__file__).parents[1]
BROWSER_TESTS = "tests/browser/"
LONG_SECONDS = 900  # a limit for what hangs; three tests share two cores
MANY_MODULES = 200  # their objects take a full collection about 0.05 s
FROZEN = {"modules": 0}
LEFT_OUT = "left_out"  # {family of long tests: how many}, from each process


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(items):
    """Mark tests; put files of the browser between others, of which many wait.

    Files of no folder come first: some take minutes, and would run alone at the end.
    """
    seen = set()
    for item in items:
        if is_of_browser(item):
            item.add_marker(pytest.mark.browser)
        if item.get_closest_marker("sweep") and not brings_new(item, seen):
            item.add_marker(pytest.mark.long("every combination"))
        if family := family_of(item):
            item.user_properties.append(("family", family))
            if family in RELEASE:
                item.add_marker(pytest.mark.release)
            if not item.get_closest_marker("timeout"):
                item.add_marker(pytest.mark.timeout(LONG_SECONDS))
    yield  # only now the tests that a marker leaves out are gone
    places = {}
    for kind in (True, False):
        files = dict.fromkeys(i.path for i in items if is_of_browser(i) is kind)
        places |= {file: number / len(files) for number, file in enumerate(files)}
    top = Path(__file__).parent
    items.sort(key=lambda item: (item.path.parent != top, places[item.path]))


def is_of_browser(item):
    return item.nodeid.startswith(BROWSER_TESTS)


def brings_new(item, seen):
    """Return whether parameters meet in this test that met in none before it."""
    [strength] = item.get_closest_marker("sweep").args
    test = item.nodeid.partition("[")[0]
    values = sorted((name, id(value)) for name, value in item.callspec.params.items())
    met = {(test, *some) for some in itertools.combinations(values, strength)}
    new = met - seen
    seen |= met
    return bool(new)


def family_of(item):
    """Return the family that a long test names, None for any other test."""
    mark = item.get_closest_marker("long")
    if mark is None:
        return None
    [family] = mark.args
    if family not in LONG | RELEASE:
        raise pytest.UsageError(
            f"{item.nodeid}: the marker's family must be one of {[*LONG, *RELEASE]} "
            f"(tests/families.py); got {family!r}."
        )
    return family


def pytest_deselected(items):
    """Count the long tests that are left out, by family."""
    config = items[0].config
    families = collections.Counter(filter(None, map(family_of, items)))
    output = getattr(config, "workeroutput", config.__dict__)
    output[LEFT_OUT] = dict(families)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node):
    """Take the count from a process of xdist; each has collected every test."""
    node.config.__dict__[LEFT_OUT] = getattr(node, "workeroutput", {}).get(LEFT_OUT)


def pytest_terminal_summary(terminalreporter, config):
    """Report which long tests were left out."""
    families = config.__dict__.get(LEFT_OUT)
    if families:
        count = sum(families.values())
        terminalreporter.section(
            f"{count} long tests left out; make test-all and test-release run them"
        )
        for family, size in sorted(families.items()):
            terminalreporter.line(f"{size:5} {family}")


def pytest_collection_finish():
    """Spare the garbage collector the walk through all that is loaded by now."""
    freeze_loaded()


def pytest_runtest_setup():
    """Spare it what tests have loaded: torch.optim's first optimizer loads the most."""
    if len(sys.modules) > FROZEN["modules"] + MANY_MODULES:
        gc.collect()  # garbage that is frozen would never be freed
        freeze_loaded()


def freeze_loaded():
    gc.freeze()
    FROZEN["modules"] = len(sys.modules)


@pytest.fixture(autouse=True)
def _seeds_of_this_test_alone():
    """Forget seeds of other tests, as a process of one run does: receipts name them."""
    # Not imported: most tests need no torch.
    if seeds := sys.modules.get("dpsgd_explorer.dp.ledger.seeds"):
        seeds._RUNS.clear()


@pytest.fixture
def checked_before(request, monkeypatch):
    """Check no network again in the long tests of a sweep.

    Its quick tests have checked each network with each engine, style and function.  The
    check takes most of the time of a clipped sum.
    """
    if request.node.get_closest_marker("long"):
        from dpsgd_explorer.dp.checks.check import SafetyCheck

        monkeypatch.setattr(
            SafetyCheck, "run", lambda check: check._gradient_engine.input_rows.forget()
        )


@pytest.fixture(scope="session")
def blank_database(tmp_path_factory):
    """The file of a database without runs, to copy: making its tables takes a while."""
    from dpsgd_explorer.runs.store.database import Database

    file = tmp_path_factory.mktemp("blank") / "runs.sqlite3"
    Database(f"sqlite:///{file}").close()
    return file


@pytest.fixture(scope="session")
def source_tree(tmp_path_factory):
    """A copy of the checkout, without tests: setuptools builds beside the source."""
    source = tmp_path_factory.mktemp("source")
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    for name in listed.stdout.decode().strip("\0").split("\0"):
        if (ROOT / name).is_file() and not name.startswith("tests/"):
            target = source / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes((ROOT / name).read_bytes())
    return source


@pytest.fixture(scope="session")
def wheel_file(source_tree, tmp_path_factory):
    """The package as it is installed: a wheel of this checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    build = "from setuptools.build_meta import build_wheel; import sys"
    subprocess.run(
        [sys.executable, "-c", f"{build}; build_wheel(sys.argv[1])", str(folder)],
        cwd=source_tree,
        check=True,
        capture_output=True,
    )
    [built] = folder.glob("*.whl")
    return built


@pytest.fixture(scope="session")
def clean_python(wheel_file, tmp_path_factory):
    """The interpreter of a fresh environment into which the wheel is installed.

    What the wheel asks for is taken from the environment of the tests.
    """
    folder = tmp_path_factory.mktemp("clean")
    return python_with(folder, "--no-deps", "--no-index", str(wheel_file))


def python_with(folder, *installed, timeout=None):
    """Make an environment in a folder, and return its interpreter.

    Packages of the environment of the tests are found there too, after its own.

    Args:
        folder: An empty folder.
        installed: Arguments of `pip install`.
        timeout: Seconds that pip may take; None for any number.
    """
    venv.create(folder)
    python = folder / "bin" / "python"
    [packages] = (folder / "lib").glob("python*/site-packages")
    others = sysconfig.get_path("purelib")
    (packages / "others.pth").write_text(f"{others}\n", encoding="utf-8")
    pip = [sys.executable, "-m", "pip", "--quiet", "--python", str(python), "install"]
    done = subprocess.run(
        [*pip, *installed], capture_output=True, text=True, timeout=timeout
    )
    assert done.returncode == 0, done.stderr
    return python


@pytest.fixture(scope="session")
def launch():
    """Start a browser, with more in its environment if so asked."""
    path = browser_path()
    expect.set_options(timeout=PATIENCE_MS)
    with sync_playwright() as playwright, contextlib.ExitStack() as started:

        def launch(**environment):
            browser = playwright.chromium.launch(
                executable_path=path, args=FLAGS, env=os.environ | environment
            )
            started.callback(browser.close)
            return browser

        yield launch


@pytest.fixture(scope="session")
def browser(launch):
    return launch()
