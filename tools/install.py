"""Install a file of requirements, with a CPU wheel of torch and one line per step.

Run as ``python tools/install.py requirements.txt`` in the environment to install into.
With a folder as second argument, the packages are installed there, without their
dependencies.

torch comes from the index in ``TORCH_INDEX`` (by default PyTorch's index for CPUs), or
else from the indexes that pip is configured with.  If these offer only a torch with
gigabytes of CUDA, nothing is installed.  An index that does not answer is tried only
once instead of once per package; pip then uses its other configured indexes.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

DEFAULT_INDEX = "https://pypi.org/simple"
TORCH_INDEX = "https://download.pytorch.org/whl/cpu"
ANSWER_SECONDS = 4.0
PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
CUDA = ("nvidia", "cuda", "triton")


def answers(index: str, seconds: float = ANSWER_SECONDS) -> bool:
    """Return whether an address answers at all, be it with an error status."""
    if not index.startswith("http"):
        return True
    try:
        urllib.request.urlopen(index, timeout=seconds).close()
    except urllib.error.HTTPError:
        return True
    except urllib.error.URLError as error:
        # pip has its own certificates.
        return "CERTIFICATE" in str(error.reason)
    except (OSError, http.client.HTTPException):
        return False
    return True


def pip_options() -> dict[str, str]:
    """Return pip's options that select indexes; the environment takes precedence."""
    configuration = subprocess.run(
        [*PIP, "config", "list"], capture_output=True, text=True, check=True
    ).stdout
    configured = re.findall(
        r"^(?:global|install)\.([\w-]+)='(.*)'$", configuration, re.MULTILINE
    )
    options = dict(configured)
    for name in ("index-url", "extra-index-url", "find-links", "proxy", "no-index"):
        value = os.environ.get(f"PIP_{name.upper().replace('-', '_')}")
        if value is not None:
            options[name] = value
    return options


def without_silent_index() -> dict[str, str]:
    """Return environment variables for pip that omit an index that does not answer."""
    options = pip_options()
    index = options.get("index-url") or DEFAULT_INDEX
    if options.get("no-index") or options.get("proxy") or answers(index):
        return {}
    print(f"{index} does not answer; looking where else pip is told to.", flush=True)
    extras = [
        extra for extra in options.get("extra-index-url", "").split() if answers(extra)
    ]
    if extras:
        first, *rest = extras
        return {"PIP_INDEX_URL": first, "PIP_EXTRA_INDEX_URL": " ".join(rest)}
    if options.get("find-links"):
        return {"PIP_NO_INDEX": "1"}
    return {"PIP_RETRIES": "0"}


def pip_install(*options: str) -> bool:
    """Run pip install; return whether it succeeded."""
    command = [*PIP, "install", "--quiet", "--quiet", *options]
    return subprocess.run(command, check=False).returncode == 0


def is_installed(requirement: str) -> bool:
    """Return whether this environment has the pinned version of a package."""
    name, pinned = requirement.split("==")
    try:
        return version(name).split("+")[0] == pinned
    except PackageNotFoundError:
        return False


def cuda_packages(requirement: str) -> list[str]:
    """Return the CUDA packages that pip would install with torch."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        dry_run = ["install", "-qq", "--dry-run", "--report", str(report), requirement]
        subprocess.run([*PIP, *dry_run], check=True)
        planned = json.loads(report.read_text("utf-8"))["install"]
    names = [package["metadata"]["name"] for package in planned]
    return [name for name in names if name.startswith(CUDA)]


def install_torch(requirement: str) -> bool:
    """Install torch without CUDA; return whether it is installed."""
    if is_installed(requirement):
        return True
    print(f"Installing {requirement} for the CPU, some 200 MB …", flush=True)
    index = os.environ.get("TORCH_INDEX") or TORCH_INDEX
    if answers(index) and pip_install("--index-url", index, requirement):
        return True
    print(f"{index} does not give it; looking where pip is told to.", flush=True)
    with contextlib.suppress(subprocess.CalledProcessError):
        if not cuda_packages(requirement):
            return pip_install(requirement)
        print(
            f"{requirement} is only offered with CUDA here, gigabytes that nothing "
            "uses. Set TORCH_INDEX to an index of CPU wheels.",
            file=sys.stderr,
        )
    return False


def main(file: Path, folder: str = "") -> int:
    """Install the requirements of a file; return the exit code."""
    lines = file.read_text("utf-8").splitlines()
    requirements = [line for line in lines if line and line[0] not in "#-"]
    os.environ |= without_silent_index()
    if not all(
        install_torch(line) for line in requirements if line.startswith("torch==")
    ):
        return 1
    print(f"Installing the {len(requirements)} packages of {file.name} …", flush=True)
    folder_options = ["--upgrade", "--no-deps", "--target", folder] if folder else []
    return 0 if pip_install(*folder_options, "-r", str(file)) else 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), *sys.argv[2:]))
