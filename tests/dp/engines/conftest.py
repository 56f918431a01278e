"""Runs the tests that compare engines on each backend of a CPU."""

import pytest

from dpsgd_explorer.dp.backends import using
from dpsgd_explorer.dp.backends.native.backend import NativeBackend
from dpsgd_explorer.dp.backends.torch import TorchBackend

NATIVE = pytest.param(NativeBackend, id="native")
TORCH = pytest.param(
    TorchBackend, id="torch", marks=pytest.mark.long("every combination")
)
#: Files whose tests run on the backend without compiled loops, too: they have all
#: layers, engines and modes.
COMPARED = ("test_engines_agree", "test_coverage")


def pytest_generate_tests(metafunc):
    """Choose the backends of a test by its file."""
    is_compared = metafunc.module.__name__.endswith(COMPARED)
    backends = [NATIVE, TORCH] if is_compared else [NATIVE]
    metafunc.parametrize("backend", backends, indirect=True)


@pytest.fixture(autouse=True)
def backend(request):
    """The backend of the CPU."""
    with using(request.param()) as made:
        yield made
