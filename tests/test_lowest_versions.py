"""The program works with the lowest versions that pyproject.toml admits."""

import contextlib
import importlib.metadata
import json
import os
import re
import subprocess
import urllib.error
import urllib.request

import pytest

from tests.conftest import python_with
from tests.examples.test_scripts import result_of
from tests.ports import free_port
from tests.runs.system_processes import wait_until
from tests.test_packaging import PROJECT, ROOT, requirements

SECONDS = 120
INSTALL_SECONDS = 1200
#: Of a version of its own for each kind of processor: the installed one is used.
INSTALLED = {"torch"}
PAGES = ("/healthz", "/train/", "/labs/accountants/", "/metrics", "/api/v1/runs")
LAUNCH = {"dataset": "adult", "model": "logistic", "steps": 1, "evaluations": 1}
# Modules that a site of files loads never.
SERVERS = (
    "import psycopg, redis, importlib.metadata as m, json, sys\n"
    "import dpsgd_explorer.runs.database.postgresql, dpsgd_explorer.runs.queue\n"
    "print(json.dumps({name: m.version(name) for name in sys.argv[1:]}))"
)

# The example of the callback, which prints nothing if all its results are right.
DOCTEST = (
    "import doctest, dpsgd_explorer.integrations.lightning as module\n"
    "failed, tried = doctest.testmod(module, optionflags=doctest.ELLIPSIS)\n"
    "assert tried, 'no example'\n"
    "raise SystemExit(failed)"
)


def lowest():
    """Return the lowest version of each package, by name and extras."""
    extras = PROJECT["project"]["optional-dependencies"]
    lines = [*requirements(), *extras["transformers"], *extras["lightning"]]
    found = dict(re.match(r"([\w\[\]-]+)>=([\d.]+)", line).groups() for line in lines)
    return {name: version for name, version in found.items() if name not in INSTALLED}


@pytest.fixture(scope="module")
def python(tmp_path_factory):
    """Return an interpreter that finds the lowest versions first."""
    folder = tmp_path_factory.mktemp("lowest")
    kept = [f"{name}=={importlib.metadata.version(name)}" for name in INSTALLED]
    pinned = [f"{name}=={version}" for name, version in lowest().items()]
    return str(python_with(folder, *kept, *pinned, timeout=INSTALL_SECONDS))


def ask(address, body=None):
    data = None if body is None else json.dumps(body).encode()
    asked = urllib.request.Request(address, data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(asked, timeout=SECONDS) as answer:
        return answer.read().decode()


def is_ready(address):
    with contextlib.suppress(OSError, urllib.error.URLError):
        return ask(f"{address}/readyz")
    return None


@pytest.mark.long("lowest versions")
@pytest.mark.timeout(INSTALL_SECONDS + 600)
def test_the_lowest_versions_are_used(python):
    names = [name.partition("[")[0] for name in lowest()]
    said = subprocess.run(
        [python, "-c", SERVERS, *names],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    for name, version in json.loads(said.stdout).items():
        used = version.split(".")
        wanted = (lowest().get(name) or lowest()[f"{name}[binary]"]).split(".")
        assert used[: len(wanted)] == wanted, name
        assert not any(map(int, used[len(wanted) :])), name


@pytest.mark.long("lowest versions")
@pytest.mark.timeout(INSTALL_SECONDS + 600)
def test_the_site_works_with_the_lowest_versions(python, tmp_path):
    port = free_port()
    own = {"DPSGD_INSTANCE_DIR": str(tmp_path), "PORT": str(port)}
    command = [python, "-m", "dpsgd_explorer", "serve"]
    process = subprocess.Popen(command, cwd=ROOT, env=os.environ | own)
    address = f"http://127.0.0.1:{port}"
    try:
        wait_until(lambda: is_ready(address) or process.poll() is not None)
        assert process.poll() is None
        for page in PAGES:
            assert ask(f"{address}{page}")
        run_id = json.loads(ask(f"{address}/api/v1/runs", LAUNCH))["id"]
        run = wait_until(
            lambda: (
                (found := json.loads(ask(f"{address}/api/v1/runs/{run_id}")))[
                    "ended_at"
                ]
                and found
            )
        )
        assert run["state"] == "done"
        log = ask(f"{address}/api/v1/runs/{run_id}/events")
        assert '"done"' in log
    finally:
        process.terminate()
        assert process.wait(SECONDS) == 0


@pytest.mark.long("lowest versions")
@pytest.mark.timeout(INSTALL_SECONDS + 600)
def test_lora_works_with_the_lowest_versions(python):
    call = "from examples.lora import main; main(epochs=1)"
    accuracy, epsilon = result_of([python, "-c", call])
    assert accuracy >= 75.0
    assert 2.7 <= epsilon <= 3.0


@pytest.mark.long("lowest versions")
@pytest.mark.timeout(INSTALL_SECONDS + 600)
def test_a_lightning_training_works_with_the_lowest_versions(python):
    done = subprocess.run(
        [python, "-c", DOCTEST], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
