"""The transforms of random bits into noise, the compiled one from today's source."""

from functools import cache

from dpsgd_explorer.dp.backends.box_muller import BoxMuller
from dpsgd_explorer.dp.backends.native import box_muller as compiled
from tests.dp.c_sources import compiled_today

NAMES = ["compiled", "torch"]


@cache
def transforms():
    """Return {name: transform}."""
    return {"compiled": compiled_today(compiled), "torch": BoxMuller().add_normals}
