"""Groups of ranks, one for all tests of a module."""

import pytest

from tests.dp.distributed.processes import ranks


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    with ranks(2, tmp_path_factory.mktemp("two")) as run:
        yield run


@pytest.fixture(scope="module")
def four(tmp_path_factory):
    with ranks(4, tmp_path_factory.mktemp("four")) as run:
        yield run
