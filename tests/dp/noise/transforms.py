"""The transforms of random bits into noise, the compiled one from today's source."""

import tempfile
from functools import cache
from pathlib import Path

from dpsgd_explorer.dp.noise import compiled
from dpsgd_explorer.dp.noise.box_muller import BoxMuller
from tools.compile_noise import ROOT, compile_to

NAMES = ["compiled", "torch"]


@cache
def transforms():
    """Return {name: transform}."""
    return {"compiled": compiled_from(ROOT), "torch": BoxMuller().add_normals}


def compiled_from(root):
    """Compile a project's noise and load it."""
    with tempfile.TemporaryDirectory() as folder:
        [file] = compile_to(Path(folder), root, compiled.NAME)
        return compiled.loaded(file)
