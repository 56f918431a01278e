"""Each backend of a CPU gives what torch's operations define, and stands alone."""

from pathlib import Path

import pytest
import torch

from dpsgd_explorer.dp.backends import backend_of, backend_on, using
from dpsgd_explorer.dp.backends.asynchronous import AsyncBackend
from dpsgd_explorer.dp.backends.convolution import Convolution
from dpsgd_explorer.dp.backends.linear import LinearMap, OuterProductCall, WeightedCall
from dpsgd_explorer.dp.backends.native.backend import NativeBackend
from dpsgd_explorer.dp.backends.torch import TorchBackend

PACKAGE = Path(__file__).resolve().parents[3] / "dpsgd_explorer"
#: Agreement of two float32 sums that are added in another order.
CLOSE = {"rtol": 1e-4, "atol": 1e-5}
B, T, D, P = 5, 7, 33, 40


def numbers(*shape, dtype=torch.float32):
    return torch.randn(*shape, generator=GENERATOR).to(dtype)


GENERATOR = torch.Generator()


@pytest.fixture(autouse=True)
def _same_numbers():
    GENERATOR.manual_seed(0)


def flat(found):
    """Return the tensors of a result, one after another."""
    if isinstance(found, torch.Tensor):
        return [found]
    return [tensor for each in found if each is not None for tensor in flat(each)]


def squared_norms(backend, dtype):
    gradients = [numbers(B, D, P, dtype=dtype), numbers(B, P, dtype=dtype)]
    return backend.squared_norms(gradients)


def add_weighted(backend, dtype):
    gradients = [numbers(B, D, P, dtype=dtype), numbers(B, 200, 300, dtype=dtype)]
    gradients.append(gradients[1].transpose(1, 2))
    totals = [numbers(*each.shape[1:], dtype=dtype).contiguous() for each in gradients]
    backend.add_weighted(gradients, [torch.rand(B, generator=GENERATOR)] * 3, totals)
    return totals


def sums(backend, dtype):
    squares = [numbers(B, dtype=dtype).square() for _ in range(3)]
    return backend.sum_of(squares), backend.roots_of_sums(squares).values


def outer_products(backend, dtype):
    calls = [
        OuterProductCall(numbers(B, d, dtype=dtype), numbers(B, p, dtype=dtype))
        for d, p in ((D, P), (1, 3), (200, 300))
    ]
    totals = [
        (torch.zeros(g.shape[1], x.shape[1]), torch.zeros(g.shape[1])) for x, g in calls
    ]
    weights = torch.rand(B, generator=GENERATOR).to(dtype)
    weighted = [
        WeightedCall(call, weights, weight.to(dtype), bias.to(dtype))
        for call, (weight, bias) in zip(calls, totals, strict=True)
    ]
    backend.add_outer_products(weighted, 3.0)
    summed = [(each.weight, each.bias) for each in weighted]
    return backend.outer_product_norms(calls, 3.0), summed


def linear(backend, dtype):
    x, g = numbers(B, T, D, dtype=dtype), numbers(B, T, P, dtype=dtype)
    return backend.linear_gradients(x, g, weight=True, bias=True)[:2]


def convolution(backend, dtype):
    layer = Convolution((3, 3), (1, 2), (1, 1), 1)
    x, g = numbers(B, 3, 8, 9, dtype=dtype), numbers(B, 16, 8, 5, dtype=dtype)
    return backend.convolution_gradients(x, g, layer, (1, 1, 1, 1))[:1]


def distinct(backend, dtype):
    found, where = backend.distinct(torch.tensor([4, 2, 4, 9, 2]))
    return [found[where].to(dtype)]


OPERATIONS = {
    each.__name__: each
    for each in (
        *(squared_norms, add_weighted, sums, outer_products),
        *(linear, convolution, distinct),
    )
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("backend", [NativeBackend, AsyncBackend])
@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_gives_what_torch_defines(name, backend, dtype):
    found = flat(OPERATIONS[name](backend(), dtype))
    GENERATOR.manual_seed(0)
    defined = flat(OPERATIONS[name](TorchBackend(), dtype))
    assert len(found) == len(defined) > 0
    for one, other in zip(found, defined, strict=True):
        torch.testing.assert_close(one, other, **CLOSE)


@pytest.mark.parametrize("backend", [TorchBackend, NativeBackend])
def test_no_squared_norm_is_too_small(backend):
    made, x, g = backend(), numbers(B, T, D), numbers(B, T, P)
    weight, bias, norms = made.linear_gradients(x, g, weight=True, bias=True)
    if norms is None:
        norms = made.sum_of(made.squared_norms([weight, bias]).unbind(0))
    exact = weight.double().square().sum((1, 2)) + bias.double().square().sum(1)
    assert (norms >= exact).all()
    torch.testing.assert_close(norms.double(), exact, rtol=1e-4, atol=0.0)
    [norms] = made.outer_product_norms([OuterProductCall(x[:, 0], g[:, 0])])
    sizes = (x[:, 0].double().square().sum(1) + 1) * g[:, 0].double().square().sum(1)
    assert (norms >= sizes).all()


def test_joined_maps_give_what_each_gives_alone():
    backend = NativeBackend()
    maps = [
        LinearMap(numbers(B, T, D), numbers(B, T, P), bias) for bias in (True, False)
    ]
    assert all(map(backend.can_join, maps))
    joined = backend.join(maps).products(range(1, 4))
    for number, (x, g, bias) in enumerate(maps):
        alone = backend.linear_gradients(x, g, weight=True, bias=bias)
        assert torch.equal(joined.squared_norms[number], alone.squared_norms[1:4])


def test_only_a_backend_that_can_join_is_asked_to():
    x = LinearMap(numbers(B, T, D), numbers(B, T, P), True)
    assert not TorchBackend().can_join(x)
    with pytest.raises(NotImplementedError, match="joins no linear maps"):
        TorchBackend().join([x])


def test_a_backend_is_used_inside_its_context_only():
    before = backend_on("cpu")
    with using(TorchBackend()) as other:
        assert backend_of(torch.empty(1)) is other
    assert backend_of(torch.empty(1)) is before
    assert isinstance(before, NativeBackend)
    assert type(backend_of(torch.empty(1, device="meta"))) is TorchBackend


def test_only_the_room_of_backends_knows_what_they_are_made_of():
    inside = PACKAGE / "dp" / "backends"
    kernels = ("dp.backends.native", "dp.backends.triton")
    importing = {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        if inside not in path.parents
        and any(name in path.read_text(encoding="utf-8") for name in kernels)
    }
    assert importing == set()
