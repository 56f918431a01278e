"""The distributed examples run as they stand."""

import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
EXAMPLES = {
    "mnist_cnn": (["--steps", "2"], r"2 ranks, 2 steps:\naccuracy .* epsilon \d"),
    "transformer_fsdp": (
        ["--steps", "2", "--width", "64", "--layers", "2"],
        r"parameters, [\d,]+ of them on rank 0;\n2 steps at epsilon \d",
    ),
}


@pytest.mark.long("every example")
@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_runs_on_two_ranks(name):
    options, said = EXAMPLES[name]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    torchrun = ["-m", "torch.distributed.run", "--nproc-per-node=2"]
    module = ["-m", f"examples.distributed.{name}", *options]
    ended = subprocess.run(
        [sys.executable, *torchrun, f"--master-port={port}", *module],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert re.search(said, ended.stdout)
