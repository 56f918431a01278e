"""The name of what computes, as far as the time of a method depends on it."""

from __future__ import annotations

import platform
import re
from functools import cache
from pathlib import Path

import torch

from dpsgd_explorer.dp.kernels.full_precision import Verified

CPU_INFO = Path("/proc/cpuinfo")
#: Lines of CPU_INFO that tell one processor from another.
FIELDS = ("model name", "cpu family", "model", "stepping", "cache size")


def processor(device: torch.device) -> str:
    """Return device, instructions, threads, torch's version and kind of products."""
    if device.type == "cuda":
        return f"{torch.cuda.get_device_name(device)}; torch {torch.__version__}"
    if device.type != "cpu":
        return f"{device.type} of {_cpu()}; torch {torch.__version__}"
    products = ", oneDNN products" if Verified.products else ""
    threads = torch.get_num_threads()
    return f"{_cpu()}; {threads} threads{products}; torch {torch.__version__}"


@cache
def _cpu() -> str:
    """Return the processor of this machine and the instructions that torch uses."""
    try:
        text = CPU_INFO.read_text(encoding="utf-8")
    except OSError:
        text = ""
    lines = [re.search(rf"^{name}\s*:\s*(.+)$", text, re.MULTILINE) for name in FIELDS]
    named = ", ".join(line[1].strip() for line in lines if line is not None)
    instructions = torch.backends.cpu.get_cpu_capability()
    return f"{named or platform.processor() or platform.machine()}, {instructions}"
