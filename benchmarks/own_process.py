"""Runs a module in a process of its own, and returns what it measured.

What a process has allocated and freed decides how fast its C library allocates later:
an ordinary LSTM takes a sixth less time where Opacus has run before.  So a way is timed
and its memory measured with nothing beside it but what it is compared with.
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
