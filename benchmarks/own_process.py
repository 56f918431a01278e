"""Runs a module in a process of its own, and returns what it measured.

Memory that a process has allocated and freed changes the speed of later allocations by
its C library: an ordinary LSTM takes a sixth less time after Opacus has run.  So the
time and memory of a method are measured in a process with its reference alone.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any


def output_of(module: str, *arguments: str) -> str:
    """Return what ``python -m module arguments`` prints.

    Raises:
        RuntimeError: it failed.
    """
    command = [sys.executable, "-m", module, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    return done.stdout


def result_of(module: str, *arguments: str) -> Any:
    """Return what ``python -m module arguments`` prints last, a line of JSON.

    Raises:
        RuntimeError: it failed.
    """
    return json.loads(output_of(module, *arguments).splitlines()[-1])
