"""The memory of this process that is in RAM."""

from __future__ import annotations

import math
import re
from pathlib import Path

STATUS = Path("/proc/self/status")


def resident_mib(field: str) -> float:
    """Return this process's resident memory (VmRSS) or its peak (VmHWM), in MiB."""
    if not STATUS.exists():
        return math.nan
    match = re.search(rf"{field}:\s+(\d+) kB", STATUS.read_text(encoding="ascii"))
    return int(match[1]) / 1024 if match else math.nan
