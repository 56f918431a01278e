"""Our C files, compiled as they stand today or with a fault planted in them."""

import shutil
import tempfile
from functools import cache
from pathlib import Path

from tools.compile_noise import ROOT, compile_to


def compiled_from(root, module):
    """Compile the library of a module from a project's source; return it, loaded."""
    with tempfile.TemporaryDirectory() as folder:
        [file] = compile_to(Path(folder), root, module.NAME)
        return module.load(file)


@cache
def compiled_today(module):
    """Return the library of a module, compiled once from today's source."""
    return compiled_from(ROOT, module)


def compiled_with_fault(folder, module, source, fault):
    """Return the same from a source in which (right, wrong) has been exchanged.

    Args:
        folder: An empty folder, which becomes the project.
        module: What loads the library.
        source: Path of the C file or header in the project.
        fault: What stands there once, and what takes its place.
    """
    text = (ROOT / source).read_text(encoding="utf-8")
    assert text.count(fault[0]) == 1
    (folder / source).parent.mkdir(parents=True)
    for file in (ROOT / source).parent.glob("*.[ch]"):
        shutil.copy(file, (folder / source).parent)
    (folder / source).write_text(text.replace(*fault), encoding="utf-8")
    shutil.copy(ROOT / "pyproject.toml", folder)
    return compiled_from(folder, module)
