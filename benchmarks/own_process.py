"""Runs a module in a new process and returns its measurements.

Memory that a process has allocated and freed changes the speed of later allocations by
its C library: an ordinary LSTM is a sixth faster after Opacus has run.  Therefore the
time and memory of a method are measured in a process with only its reference.
"""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

STATUS = Path("/proc/self/status")


def output_of(module: str, *arguments: str, timeout_s: float | None = None) -> str:
    """Return the output of ``python -m module arguments``.

    Raises:
        RuntimeError: the module failed, or did not end within ``timeout_s`` seconds.
    """
    command = [sys.executable, "-m", module, *arguments]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=timeout_s
        )
    except subprocess.TimeoutExpired as error:
        raise RuntimeError(f"did not end within {timeout_s:.0f} s") from error
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    return done.stdout


def result_of(module: str, *arguments: str, timeout_s: float | None = None) -> Any:
    """Return the last line of output of ``python -m module arguments``, as JSON.

    Raises:
        RuntimeError: the module failed, or did not end within ``timeout_s`` seconds.
    """
    output = output_of(module, *arguments, timeout_s=timeout_s)
    return json.loads(output.splitlines()[-1])


def resident_mib(field: str) -> float:
    """Return this process's resident memory (VmRSS) or its peak (VmHWM), in MiB."""
    if not STATUS.exists():
        return math.nan
    match = re.search(rf"{field}:\s+(\d+) kB", STATUS.read_text(encoding="ascii"))
    return int(match[1]) / 1024 if match else math.nan
