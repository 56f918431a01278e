"""The wheel installed without an extra is a whole library; with one it is the site.

In the environment ``lean``, packages that the library does not require, directly or
through another package, cannot be imported.
"""

import itertools
import json
import re
import subprocess
import sys
import sysconfig
import venv
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from dpsgd_explorer import __version__, extras
from dpsgd_explorer.cli.main import OF_THE_SITE
from tests.ports import free_port
from tests.runs.system_processes import wait_until
from tests.test_architecture import modules
from tests.test_lowest_versions import PAGES, ask, is_ready
from tests.test_packaging import PROJECT

SECONDS = 240
PACKAGES = Path(sysconfig.get_path("purelib"))
REMEDY = "Run: pip install 'dpsgd-explorer[site]'"
LAYERS = ("accounting", "audit", "dp", "experiments", "regression", "training")
EPSILON = "epsilon --sample-rate 0.01 --noise-multiplier 1 --steps 9 --delta 1e-5"
SMALL = {"dataset": "adult", "model": "logistic", "steps": 1, "evaluations": 1}
DOWNLOAD = """
from pathlib import Path
from dpsgd_explorer.experiments.data_files.fetched import FetchedFile, FetchedSet
from dpsgd_explorer.training.datasets.download import read

place = Path("no/such/folder")
file = FetchedFile("set/file", "0", "0", 1, ("http://127.0.0.1:9/file",), place)
read(FetchedSet("set", "Set", (file,), package="none"), file)
"""
#: In the language of Triton, which comes with torch where there is an accelerator.
IN_TRITON = {
    "dpsgd_explorer.dp.backends.triton.noise_kernel",
    "dpsgd_explorer.dp.backends.triton.row_kernels",
}
OPTIONS = {"queue": ["status"], "runs": ["end", "x"], "database": ["upgrade"]}
pytestmark = [pytest.mark.long("release"), pytest.mark.timeout(2 * SECONDS)]


def library():
    """Return the distributions that the library needs, with all that those need."""
    found, waiting = {}, list(PROJECT["project"]["dependencies"])
    while waiting:
        requirement = Requirement(waiting.pop())
        name = canonicalize_name(requirement.name)
        marker = requirement.marker
        if name in found or (marker and not marker.evaluate({"extra": ""})):
            continue
        found[name] = metadata.distribution(name)
        waiting += found[name].requires or []
    return found


@pytest.fixture(scope="module")
def lean(wheel_file, tmp_path_factory):
    """Return the folder of programs of an environment with the lean library alone."""
    folder = tmp_path_factory.mktemp("lean")
    venv.create(folder)
    install = [sys.executable, "-m", "pip", "--quiet"]
    install += ["--python", str(folder / "bin" / "python"), "install", "--no-deps"]
    subprocess.run([*install, "--no-index", str(wheel_file)], check=True)
    [packages] = (folder / "lib").glob("python*/site-packages")
    files = itertools.chain(*(each.files or [] for each in library().values()))
    for top in {file.parts[0] for file in files} - {"..", "__pycache__"}:
        (packages / top).symlink_to(PACKAGES / top)
    return folder / "bin"


def run(lean, program, *arguments, stdin="", **variables):
    """Run a program of the environment, which sees no other packages."""
    return subprocess.run(
        [str(lean / program), *arguments],
        input=stdin,
        cwd=lean.parent,
        env={"PATH": "/usr/bin:/bin", "OMP_NUM_THREADS": "1"} | variables,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )


def test_every_module_of_the_library_can_be_imported(lean):
    names = {name for layer in LAYERS for name in modules(layer)} - IN_TRITON
    code = (
        "import importlib, sys\n"
        "from importlib.util import find_spec\n"
        "assert not [n for n in ('flask', 'huey', 'pooch', 'safetensors') "
        "if find_spec(n)]\n"
        "for name in sys.argv[1:]:\n"
        "    importlib.import_module(name)\n"
    )
    done = run(lean, "python", "-c", code, *names)
    assert done.returncode == 0, done.stderr


def test_the_program_tells_its_version_and_an_epsilon(lean):
    assert run(lean, "dpsgd", "--version").stdout == f"dpsgd {__version__}\n"
    told = run(lean, "dpsgd", *EPSILON.split())
    assert told.returncode == 0, told.stderr
    assert "ε = " in told.stdout


def test_a_run_is_trained(lean):
    done = run(lean, "dpsgd", "train", "--config", "-", stdin=json.dumps(SMALL))
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("command", sorted(OF_THE_SITE))
def test_a_command_of_the_site_names_what_to_install(lean, command):
    done = run(lean, "dpsgd", command, *OPTIONS.get(command, []))
    assert done.returncode == 2
    [line] = done.stderr.splitlines()
    assert line.startswith(f"{command}: this command needs packages that are not ")
    assert line.endswith(REMEDY)
    [named] = re.findall("installed: (.*?)[.]", line)
    present = library()
    absent = [name for name in extras.SITE if canonicalize_name(name) not in present]
    assert named.split(", ") == absent


def test_weights_are_refused_before_the_run_starts(lean):
    config = json.dumps(SMALL | {"steps": 5000})
    arguments = ["--config", "-", "--weights", "w.safetensors"]
    done = run(lean, "dpsgd", "train", *arguments, stdin=config)
    assert done.returncode == 2
    assert done.stdout == ""
    reason = "--weights needs a package that is not installed: safetensors."
    assert done.stderr == f"train: {reason} {REMEDY}\n"


def test_a_data_set_that_must_be_downloaded_names_what_to_install(lean, tmp_path):
    done = run(lean, "python", "-c", DOWNLOAD, DPSGD_INSTANCE_DIR=str(tmp_path))
    [error] = done.stderr.splitlines()[-1:]
    assert error.startswith("dpsgd_explorer.errors.MissingPackageError: Downloading")
    assert error.endswith(f"not installed: pooch. {REMEDY}")


def test_with_the_packages_of_the_site_the_program_serves_it(clean_python, tmp_path):
    port = free_port()
    variables = {"DPSGD_INSTANCE_DIR": str(tmp_path), "PORT": str(port)}
    address = f"http://127.0.0.1:{port}"
    process = subprocess.Popen(
        [str(clean_python.parent / "dpsgd"), "serve"],
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin"} | variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        wait_until(lambda: is_ready(address) or process.poll() is not None)
        assert process.poll() is None
        for page in PAGES:
            assert ask(f"{address}{page}")
    finally:
        process.terminate()
        said, _ = process.communicate(timeout=SECONDS)
    assert process.returncode == 0
    assert f"DP-SGD Explorer is at {address}" in said
    assert "Traceback" not in said
