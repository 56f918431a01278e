"""The whole product, started as a command."""

import os
import re
import subprocess
import sys
import urllib.request

import pytest

from tests.ports import free_port
from tests.runs.system_processes import wait_until
from tests.server.processes import START_SECONDS, worker_of


@pytest.fixture
def product(tmp_path):
    """Start the product on a free port; give its process and its address."""
    port = free_port()
    process = subprocess.Popen(
        [sys.executable, "-m", "dpsgd_explorer", "serve"],
        env=os.environ | {"DPSGD_INSTANCE_DIR": str(tmp_path), "PORT": str(port)},
        stdout=subprocess.PIPE,
        text=True,
    )
    address = re.search(r"http://\S+", process.stdout.readline()).group()
    assert address == f"http://127.0.0.1:{port}"
    with urllib.request.urlopen(f"{address}/healthz", timeout=START_SECONDS) as answer:
        assert answer.status == 200
    wait_until(lambda: worker_of(process))
    yield process, address
    process.terminate()
    process.wait(START_SECONDS)
    process.stdout.close()
