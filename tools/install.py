"""Install a file of requirements, torch as a CPU wheel: a line per step, no waiting.

Run as ``python tools/install.py requirements.txt`` by the environment it installs into;
a folder after the file takes the packages instead, without what they depend on.

torch comes from the index in ``TORCH_INDEX`` (PyTorch's own for the CPU unless said
otherwise), or else from wherever pip is told to look; if what is offered there would
bring gigabytes of CUDA, nothing is installed.  An index that does not answer is asked
once, and not again for every package: pip then looks in the other places it knows.
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
    """Whether anything answers at an address, be it with a refusal."""
    if not index.startswith("http"):
        return True
    try:
        urllib.request.urlopen(index, timeout=seconds).close()
    except urllib.error.HTTPError:
        return True
    except urllib.error.URLError as error:
        # pip has certificates of its own.
        return "CERTIFICATE" in str(error.reason)
    except (OSError, http.client.HTTPException):
        return False
    return True


def pip_places() -> dict[str, str]:
    """Return where pip is told to look: its options by name, the environment first."""
    listed = subprocess.run(
        [*PIP, "config", "list"], capture_output=True, text=True, check=True
    ).stdout
    found = re.findall(r"^(?:global|install)\.([\w-]+)='(.*)'$", listed, re.MULTILINE)
    places = dict(found)
    for name in ("index-url", "extra-index-url", "find-links", "proxy", "no-index"):
        value = os.environ.get(f"PIP_{name.upper().replace('-', '_')}")
        if value is not None:
            places[name] = value
    return places


def without_what_is_silent() -> dict[str, str]:
    """Return variables for pip that leave out an index that does not answer."""
    places = pip_places()
    index = places.get("index-url") or DEFAULT_INDEX
    if places.get("no-index") or places.get("proxy") or answers(index):
        return {}
    print(f"{index} does not answer; looking where else pip is told to.", flush=True)
    extras = [one for one in places.get("extra-index-url", "").split() if answers(one)]
    if extras:
        first, *rest = extras
        return {"PIP_INDEX_URL": first, "PIP_EXTRA_INDEX_URL": " ".join(rest)}
    if places.get("find-links"):
        return {"PIP_NO_INDEX": "1"}
    return {"PIP_RETRIES": "0"}


def pip_install(*options: str) -> bool:
    """Try to install; return whether it went well."""
    command = [*PIP, "install", "--quiet", "--quiet", *options]
    return subprocess.run(command, check=False).returncode == 0


def is_installed(requirement: str) -> bool:
    """Whether this environment has the pinned version of a package already."""
    name, pinned = requirement.split("==")
    try:
        return version(name).split("+")[0] == pinned
    except PackageNotFoundError:
        return False


def cuda_packages(requirement: str) -> list[str]:
    """Return the CUDA that pip would bring with a torch from where it looks now."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        dry = ["install", "-qq", "--dry-run", "--report", str(report), requirement]
        subprocess.run([*PIP, *dry], check=True)
        wanted = json.loads(report.read_text("utf-8"))["install"]
    names = [each["metadata"]["name"] for each in wanted]
    return [name for name in names if name.startswith(CUDA)]


def install_torch(requirement: str) -> bool:
    """Install torch without CUDA; return whether it is there."""
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
    """Install what a file names; return the exit code."""
    lines = file.read_text("utf-8").splitlines()
    named = [line for line in lines if line and line[0] not in "#-"]
    os.environ |= without_what_is_silent()
    if not all(install_torch(line) for line in named if line.startswith("torch==")):
        return 1
    print(f"Installing the {len(named)} packages of {file.name} …", flush=True)
    apart = ["--upgrade", "--no-deps", "--target", folder] if folder else []
    return 0 if pip_install(*apart, "-r", str(file)) else 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), *sys.argv[2:]))
