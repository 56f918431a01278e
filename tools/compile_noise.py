"""Compile the noise, gradient and LSTM extensions, if there is a C compiler.

Run as ``python tools/compile_noise.py [FOLDER]`` in the environment that will use them;
without a folder each library is written where the package looks for it.  pyproject.toml
determines sources and flags, as for wheels.  Without a compiler torch draws the noise,
with the same distribution, about three times slower.  Steps of convolutions and
transformers are then 10% slower, and steps of LSTMs 50%.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

ROOT = Path(__file__).parents[1]


def compiler() -> str | None:
    """Return the path of the C compiler: ``CC``, or else ``cc``."""
    return shutil.which(os.environ.get("CC", "cc"))


def compile_to(
    folder: Path | None = None, root: Path = ROOT, only: str = ""
) -> list[Path]:
    """Compile all extensions of a project, or one of them; return the files.

    Raises:
        subprocess.CalledProcessError: the compiler rejects the source.
    """
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    files = []
    for module in project["tool"]["setuptools"]["ext-modules"]:
        sources = [root / source for source in module["sources"]]
        name = module["name"].rpartition(".")[2]
        if only not in ("", name):
            continue
        file = (folder or sources[0].parent) / f"{name}.so"
        flags = [*module["extra-compile-args"], "-shared", "-fPIC"]
        # Written under a temporary name, because a process may have the old file
        # loaded.
        fresh = file.with_suffix(f".{os.getpid()}")
        command = [compiler() or "cc", *flags, *sources, "-o", fresh, "-lm"]
        subprocess.run(command, check=True)
        fresh.replace(file)
        # The package would load a file with the name of an earlier version first.
        for suffix in EXTENSION_SUFFIXES:
            if suffix != file.suffix:
                file.with_name(name + suffix).unlink(missing_ok=True)
        files.append(file)
    return files


def main() -> None:
    """Compile the extensions and print the result."""
    slower = "noise is drawn by torch, some three times slower."
    if compiler() is None:
        print(f"No C compiler (cc): {slower}")
        return
    try:
        compile_to(Path(sys.argv[1]) if sys.argv[1:] else None)
    except subprocess.CalledProcessError:
        print(f"The C compiler refuses the noise's source: {slower}")


if __name__ == "__main__":
    main()
