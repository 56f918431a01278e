"""Every engine and mode gives the clipped sum of one backward a sample."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from dpsgd_explorer.dp import per_sample_gradients
from dpsgd_explorer.dp.clipping.clipper import CLIPPING_FUNCTIONS
from dpsgd_explorer.dp.config import CHOICES
from tests.dp.nets import NETS, case, clipped_sum, total_norm

EXACT = {"rtol": 1e-10, "atol": 1e-13}
NET = pytest.mark.parametrize("name", NETS)
C = 0.3  # some samples are shortened, some are not


def loop_gradients(net, x, y):
    """Return {name: [B, *shape]} by autograd on each sample alone."""
    wanted = {n: p for n, p in net.named_parameters() if p.requires_grad}
    rows = []
    for i in range(len(x)):
        loss = F.cross_entropy(net(x[i : i + 1]), y[i : i + 1])
        rows.append(torch.autograd.grad(loss, wanted.values(), allow_unused=True))
    columns = zip(*rows, strict=True)
    return {
        name: torch.stack([torch.zeros_like(p) if g is None else g for g in column])
        for (name, p), column in zip(wanted.items(), columns, strict=True)
    }


def loop_sum(net, x, y, function, bound=C):
    gradients = loop_gradients(net, x, y)
    squares = [g.reshape(len(x), -1).square().sum(1) for g in gradients.values()]
    factors = CLIPPING_FUNCTIONS[function](torch.stack(squares).sum(0).sqrt(), bound)
    return {n: torch.einsum("b,b...->...", factors, g) for n, g in gradients.items()}


def check_clipped_sum(net, x, y=None, bound=C, **options):
    """Assert that an engine's clipped sum is that of a loop."""
    y = torch.randint(0, 3, (len(x),)) if y is None else y
    actual = clipped_sum(net, x, y, max_grad_norm=bound, **options)
    torch.testing.assert_close(actual, loop_sum(net, x, y, "automatic", bound), **EXACT)


@pytest.mark.sweep(2)
@pytest.mark.usefixtures("checked_before")
@pytest.mark.parametrize("function", CLIPPING_FUNCTIONS)
@pytest.mark.parametrize("engine", CHOICES["engine"])
@NET
def test_each_engine_gives_the_clipped_sum_of_a_loop(name, engine, function):
    net, x, y = case(name)
    options = {"engine": engine, "clipping_fn": function, "max_grad_norm": C}
    actual = clipped_sum(net, x, y, **options)
    torch.testing.assert_close(actual, loop_sum(net, x, y, function), **EXACT)


@pytest.mark.parametrize("mode", CHOICES["clipping_mode"])
@NET
def test_each_clipping_mode_gives_the_same_sum(name, mode):
    net, x, y = case(name)
    check_clipped_sum(net, x, y, clipping_mode=mode)


@pytest.mark.sweep(1)
@pytest.mark.usefixtures("checked_before")
@pytest.mark.parametrize("parts", [2, 5])
@pytest.mark.parametrize("engine", CHOICES["engine"])
@NET
def test_backward_in_parts_gives_one_logical_batch(name, engine, parts):
    net, x, y = case(name)
    whole = clipped_sum(net, x, y, max_grad_norm=C)
    split = clipped_sum(net, x, y, max_grad_norm=C, parts=parts, engine=engine)
    torch.testing.assert_close(split, whole, **EXACT)


@pytest.mark.sweep(1)
@pytest.mark.usefixtures("checked_before")
@pytest.mark.parametrize("engine", CHOICES["engine"])
@NET
def test_mean_and_sum_of_losses_give_the_same_clipped_sum(name, engine):
    net, x, y = case(name)
    options = {"engine": engine, "max_grad_norm": C}
    mean = clipped_sum(net, x, y, reduction="mean", **options)
    total = clipped_sum(net, x, y, reduction="sum", **options)
    torch.testing.assert_close(mean, total, **EXACT)


@pytest.mark.parametrize("engine", CHOICES["engine"])
@NET
def test_an_empty_batch_contributes_nothing(name, engine):
    net, x, y = case(name)
    nobody = clipped_sum(net, x[:0], y[:0], engine=engine)
    assert total_norm(nobody) == 0.0


@pytest.mark.sweep(1)
@pytest.mark.usefixtures("checked_before")
@pytest.mark.parametrize("engine", CHOICES["engine"])
@NET
def test_samples_in_small_chunks_give_the_same_sum(name, engine, monkeypatch):
    net, x, y = case(name)
    options = {"engine": engine, "max_grad_norm": C, "clipping_mode": "instantiate"}
    whole = clipped_sum(net, x, y, **options)
    monkeypatch.setattr("dpsgd_explorer.dp.backends.torch.CHUNK_BYTES", 1)
    torch.testing.assert_close(clipped_sum(net, x, y, **options), whole, **EXACT)


@NET
def test_per_sample_gradients_are_those_of_a_loop(name):
    net, x, y = case(name)
    actual = per_sample_gradients(net, F.cross_entropy, x, y)
    expected = loop_gradients(net, x, y)
    torch.testing.assert_close(actual, expected, **EXACT)


def test_per_sample_gradients_leave_no_trace():
    net, x, y = case("mlp")
    per_sample_gradients(net, F.cross_entropy, x, y)
    assert all(p.grad is None and p.requires_grad for p in net.parameters())
    assert not net._forward_pre_hooks
    assert not any(each._forward_hooks for each in net.modules())


@pytest.mark.parametrize("engine", CHOICES["engine"])
def test_several_inputs_and_keywords_are_samples_too(engine):
    class TwoInputs(nn.Module):
        def __init__(self):
            super().__init__()
            self.left, self.right = nn.Linear(4, 3), nn.Linear(2, 3)

        def forward(self, x, *, other, scale):
            return self.left(input=x) * scale + self.right(other)

    class Call(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = TwoInputs()

        def forward(self, x):
            return self.inner(x, other=x[:, :2], scale=0.5)

    torch.manual_seed(0)
    check_clipped_sum(Call().double(), torch.randn(5, 4).double(), engine=engine)


def test_microbatch_trains_what_has_no_rule():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.gain = nn.Linear(4, 4), nn.Parameter(torch.ones(4))
            self.cell = nn.LSTM(4, 3, batch_first=True)

        def forward(self, x):
            twice = self.layer(torch.tanh(self.layer(x))) * self.gain
            return self.cell(twice.unsqueeze(1))[0][:, 0]

    torch.manual_seed(0)
    check_clipped_sum(Tied().double(), torch.randn(5, 4).double(), engine="microbatch")
