"""Runs every test of the engines on each backend of a CPU."""

import pytest

from dpsgd_explorer.dp.backends import using
from dpsgd_explorer.dp.backends.native.backend import NativeBackend
from dpsgd_explorer.dp.backends.torch import TorchBackend


@pytest.fixture(
    autouse=True,
    params=[
        pytest.param(NativeBackend, id="native"),
        pytest.param(
            TorchBackend, id="torch", marks=pytest.mark.long("every combination")
        ),
    ],
)
def backend(request):
    """The backend of the CPU."""
    with using(request.param()) as made:
        yield made
