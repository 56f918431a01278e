"""Install the pinned torch as a CPU wheel, never with gigabytes of CUDA.

The wheel comes from the index in ``TORCH_INDEX`` (PyTorch's own for the CPU unless
said otherwise).  Where that cannot be reached, it comes from wherever pip is told to
look; if what is offered there would bring CUDA, nothing is installed.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

REQUIREMENTS = Path(__file__).parents[1] / "requirements.txt"
DEFAULT_INDEX = "https://download.pytorch.org/whl/cpu"
PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check"]


def pinned() -> str:
    """Return the line of requirements.txt that pins torch."""
    line = re.search(r"^torch==\S+$", REQUIREMENTS.read_text("utf-8"), re.MULTILINE)
    if line is None:
        raise SystemExit(f"{REQUIREMENTS.name} must pin torch, as in torch==1.2.3.")
    return line.group()


def is_installed(requirement: str) -> bool:
    """Whether this environment has the pinned version already."""
    try:
        return version("torch").split("+")[0] == requirement.split("==")[1]
    except PackageNotFoundError:
        return False


def install(requirement: str, *options: str) -> bool:
    """Try to install; return whether it went well."""
    command = [*PIP, "install", *options, requirement]
    return subprocess.run(command, check=False).returncode == 0


def cuda_packages(requirement: str) -> list[str]:
    """Return what pip would bring besides a CPU torch from where it looks now."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        dry = ["install", "--dry-run", "--quiet", "--report", str(report), requirement]
        subprocess.run([*PIP, *dry], check=True)
        wanted = json.loads(report.read_text("utf-8"))["install"]
    names = [each["metadata"]["name"] for each in wanted]
    return [name for name in names if name.startswith(("nvidia", "cuda", "triton"))]


def main() -> int:
    """Install torch unless it is there; return the exit code."""
    requirement = pinned()
    if is_installed(requirement):
        return 0
    index = os.environ.get("TORCH_INDEX") or DEFAULT_INDEX
    patience = ("--retries", "1", "--timeout", "15")
    if install(requirement, "--index-url", index, *patience):
        return 0
    print(f"{index} did not give {requirement}; looking elsewhere.", file=sys.stderr)
    if cuda_packages(requirement):
        print(
            f"{requirement} is only offered with CUDA here, gigabytes that nothing "
            "uses. Set TORCH_INDEX to an index of CPU wheels.",
            file=sys.stderr,
        )
        return 1
    return 0 if install(requirement) else 1


if __name__ == "__main__":
    sys.exit(main())
