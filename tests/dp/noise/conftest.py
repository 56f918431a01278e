import pytest

from dpsgd_explorer.dp.noise import compiled
from dpsgd_explorer.dp.noise.box_muller import BoxMuller
from tools.compile_noise import compile_to


@pytest.fixture(scope="session")
def transforms(tmp_path_factory):
    """Return {name: a transform of random bits}, one compiled from today's source."""
    [file] = compile_to(tmp_path_factory.mktemp("compiled"))
    return {"compiled": compiled.loaded(file), "torch": BoxMuller().add_normals}
