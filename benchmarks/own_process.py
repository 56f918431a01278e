"""Runs a module in a new process and returns its measurements.

Memory that a process has allocated and freed changes the speed of later allocations by
its C library: an ordinary LSTM is a sixth faster after Opacus has run.  Therefore the
time and memory of a method are measured in a process with only its reference.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any


def output_of(module: str, *arguments: str) -> str:
    """Return the output of ``python -m module arguments``.

    Raises:
        RuntimeError: the module failed.
    """
    command = [sys.executable, "-m", module, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    return done.stdout


def result_of(module: str, *arguments: str) -> Any:
    """Return the last line of output of ``python -m module arguments``, as JSON.

    Raises:
        RuntimeError: the module failed.
    """
    return json.loads(output_of(module, *arguments).splitlines()[-1])
