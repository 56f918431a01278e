"""The faster pieces: exact, chosen by measurement, and gone when switched off."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from dpsgd_explorer.training.cpu import kernels
from dpsgd_explorer.training.cpu.kernels import Probe
from dpsgd_explorer.training.cpu.max_pool import max_pool
from tests.dp.nets import attached, step

EVEN = [(2, 2), (3, 3), (1, 1), (1, 3), (4, 2)]


def images(kind, dtype=torch.float32):
    """Return images with ties: pooled gradients must go to the same one of them."""
    torch.manual_seed(0)
    x = torch.randn(3, 2, 7, 6, dtype=dtype)
    kinds = {
        "different": x,
        "tied": x.round(),
        "flat": torch.zeros_like(x),
        "infinite": torch.where(x > 1, torch.inf, x),
    }
    return kinds[kind].requires_grad_()


LAYOUTS = [torch.contiguous_format, torch.channels_last]


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("kind", ["different", "tied", "flat", "infinite"])
@pytest.mark.parametrize("kernel_size", EVEN, ids=str)
def test_pooling_is_torchs_to_the_last_bit(kernel_size, kind, layout):
    x = images(kind)
    laid = x.contiguous(memory_format=layout)
    expected = F.max_pool2d(x, kernel_size, 1)
    g = torch.randn_like(expected)
    found = max_pool(laid, kernel_size)
    assert torch.equal(found, expected)
    own, reference = (torch.autograd.grad(y, x, g)[0] for y in (found, expected))
    assert torch.equal(own, reference)
    with torch.no_grad():
        assert torch.equal(max_pool(laid, kernel_size), expected)


@pytest.mark.parametrize("width", [40, 130, 17_000])
def test_pooling_finds_entries_far_apart(width):
    x = torch.randn(1, 1, 4, width, generator=torch.Generator().manual_seed(0))
    x.requires_grad_()
    found, expected = max_pool(x, (4, 3)), F.max_pool2d(x, (4, 3), 1)
    assert torch.equal(found, expected)
    own, reference = (torch.autograd.grad(y.sum(), x)[0] for y in (found, expected))
    assert torch.equal(own, reference)


class Operations(TorchDispatchMode):
    """Records the names of the operations carried out."""

    def __init__(self):
        super().__init__()
        self.names = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.add(func.overloadpacket.__name__)
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("differentiated", [True, False])
def test_pooling_does_nothing_slow(differentiated, layout):
    x = images("different").detach().contiguous(memory_format=layout)
    x.requires_grad_(differentiated)
    with Operations() as operations:
        max_pool(x, (3, 2))
    assert operations.names
    assert "where" not in operations.names  # one such takes as long as torch's pooling
    if not differentiated:
        assert not {"gt", "max_pool2d_with_indices"} & operations.names


def pooled_net():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 3, 3),
        nn.Tanh(),
        nn.MaxPool2d(2, stride=1),
        nn.Flatten(),
        nn.Linear(3 * 5 * 5, 2),
    )


def private_step(x, y, *, fast):
    net = pooled_net()
    _, optimizer = attached(net, noise_multiplier=1.0, seed=3)
    with kernels.in_use(*[net] * fast):
        step(net, optimizer, x, y)
    return [p.detach().clone() for p in net.parameters()]


def test_a_private_step_is_the_same_with_and_without():
    x, y = torch.randn(4, 1, 8, 8), torch.tensor([0, 1, 1, 0])
    for fast, stock in zip(
        private_step(x, y, fast=True), private_step(x, y, fast=False), strict=True
    ):
        torch.testing.assert_close(fast, stock, rtol=1e-5, atol=1e-6)


def test_only_pooling_that_it_computes_is_replaced():
    others = [
        nn.MaxPool2d(2),
        nn.MaxPool2d(3, stride=1, padding=1),
        nn.MaxPool2d(2, stride=1, dilation=2),
        nn.MaxPool2d(2, stride=1, return_indices=True),
        nn.AvgPool2d(2, stride=1),
    ]
    net = nn.Sequential(nn.MaxPool2d(2, stride=1), *others)
    with kernels.in_use(net):
        assert ["forward" in vars(each) for each in net] == [True, *[False] * 5]
    assert not any("forward" in vars(each) for each in net)


def test_inputs_that_it_does_not_take_go_to_torch():
    pool = nn.MaxPool2d(2, stride=1)
    with kernels.in_use(pool):
        assert pool(torch.randn(2, 5, 5)).shape == (2, 4, 4)
        assert pool(torch.randn(0, 2, 5, 5)).shape == (0, 2, 4, 4)
        with pytest.raises(RuntimeError):
            pool(torch.randn(1, 2, 1, 5))


def test_switches_are_put_back_after_an_exception():
    before = torch.backends.mkldnn.matmul.fp32_precision
    pool = nn.MaxPool2d(2, stride=1)
    with pytest.raises(ZeroDivisionError), kernels.in_use(pool):
        _ = 1 / 0
    assert torch.backends.mkldnn.matmul.fp32_precision == before
    assert torch.get_float32_matmul_precision() == "highest"
    assert "forward" not in vars(pool)


CHOICES = {
    "twice as fast": (Probe(2.0, 1.0, 1e-6, False), True),
    "hardly faster": (Probe(1.1, 1.0, 1e-6, False), False),
    "slower": (Probe(1.0, 2.0, 1e-6, False), False),
    "as rough as bfloat16": (Probe(2.0, 1.0, 1e-3, False), False),
    "has units that round": (Probe(2.0, 1.0, 1e-6, True), False),
}


@pytest.mark.parametrize("case", CHOICES.values(), ids=CHOICES)
def test_onednn_is_chosen_where_it_is_faster_and_exact(case):
    measured, expected = case
    assert measured.chooses_onednn is expected


def test_without_products_no_setting_is_touched():
    before = torch.backends.mkldnn.matmul.fp32_precision
    pool = nn.MaxPool2d(2, stride=1)
    with kernels.in_use(pool, products=False):
        assert torch.backends.mkldnn.matmul.fp32_precision == before
        assert "forward" in vars(pool)


def test_products_are_float32_while_in_use():
    torch.manual_seed(0)
    a, b = torch.randn(300, 500), torch.randn(500, 200)
    exact = a.double() @ b.double()
    with kernels.in_use():
        error = (a @ b - exact).abs().max() / exact.abs().max()
    assert error < kernels.MAX_ERROR_RATIO
    assert kernels.probe().onednn_seconds > 0
