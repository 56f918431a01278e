"""engine="vmap": any module that torch.func can map, and a name for what it cannot."""

import pytest
import torch
from torch import Tensor, nn

from dpsgd_explorer.errors import UnsupportedModuleError
from tests.dp.engines.test_engines_agree import EXACT, loop_sum
from tests.dp.nets import CLASSES, attached, backward, case, clipped_sum, step

C = 0.3


class Scaled(nn.Module):
    """Bare parameters, a tied layer used twice, and a transposed convolution."""

    def __init__(self):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(4))
        self.twice = nn.Linear(4, 4)
        self.wide = nn.ConvTranspose1d(1, 2, 3)
        self.tied = nn.Linear(4, 4)
        self.tied.weight = self.twice.weight
        self.head = nn.Linear(12, CLASSES)

    def forward(self, x):
        x = self.tied(torch.tanh(self.twice(torch.tanh(self.twice(x * self.gain)))))
        return self.head(self.wide(x.unsqueeze(1)).flatten(1))


class Branching(nn.Module):
    def forward(self, x):
        return x if x.sum() > 0 else -x


def with_inside(inside):
    return nn.Sequential(
        nn.Linear(4, 6), nn.Sequential(nn.Tanh(), inside), nn.Linear(6, CLASSES)
    )


@pytest.mark.parametrize("style", ["all-layer", "param-wise"])
def test_what_has_no_rule_is_that_of_a_loop(style):
    torch.manual_seed(0)
    net, x = Scaled().double(), torch.randn(5, 4).double()
    y = torch.randint(0, CLASSES, (5,))
    options = {"max_grad_norm": C, "clipping_style": style}
    actual = clipped_sum(net, x, y, engine="vmap", **options)
    expected = clipped_sum(net, x, y, engine="microbatch", **options)
    torch.testing.assert_close(actual, expected, **EXACT)
    if style == "all-layer":
        torch.testing.assert_close(actual, loop_sum(net, x, y, "automatic", C), **EXACT)


UNMAPPABLE = {
    "branch": (Branching(), r"1\.1 \(Branching\) cannot be run"),
    "recurrent": (nn.LSTM(6, 6, batch_first=True), r"1\.1 \(LSTM\) cannot be run"),
}


@pytest.mark.parametrize(("inside", "message"), UNMAPPABLE.values(), ids=UNMAPPABLE)
def test_what_cannot_be_mapped_is_refused_by_name(inside, message):
    net = with_inside(inside)
    attached(net, engine="vmap")
    with pytest.raises(UnsupportedModuleError, match=message):
        net(torch.randn(5, 4))
    assert all(isinstance(p, nn.Parameter) for p in net.parameters())
    assert not any(each._forward_pre_hooks for each in net.modules())


class Reduced(nn.Module):
    def __init__(self, reduce):
        super().__init__()
        self.layer, self.reduce = nn.Linear(4, 3), reduce

    def forward(self, x):
        return self.reduce(self.layer(x))


REDUCED = {
    "a sum told as a mean": (Tensor.sum, "not a mean over samples"),
    "no row per sample": (lambda out: out.sum(0), "one row per sample"),
}


@pytest.mark.parametrize("engine", ["vmap", "microbatch"])
@pytest.mark.parametrize(("reduce", "message"), REDUCED.values(), ids=REDUCED)
def test_an_output_without_rows_is_refused(reduce, message, engine):
    net = Reduced(reduce)
    attached(net, engine=engine)
    with pytest.raises(UnsupportedModuleError, match=message):
        net(torch.randn(5, 4))


def test_the_padding_row_of_an_embedding_gets_no_gradient():
    net, x, y = case("tokens")
    x[:, 0] = 0
    total = clipped_sum(net, x, y, engine="vmap")
    assert total["embedding.weight"][0].norm() == 0
    assert total["embedding.weight"][1:].norm() > 0


def test_masks_are_drawn_for_each_sample():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 64), nn.Dropout(0.5), nn.Linear(64, CLASSES))
    seen = []
    net[1].register_forward_hook(lambda *call: seen.append(call[2]))
    _, optimizer = attached(net, engine="vmap")
    x, y = torch.ones(2, 4), torch.zeros(2, dtype=torch.int64)
    first, second = net(x)
    assert not torch.equal(first, second)
    step(net, optimizer, x, y)
    assert torch.isfinite(net[0].weight).all()


def test_evaluation_runs_the_modules_own_forward():
    net, x, y = case("mlp")
    _, optimizer = attached(net, engine="vmap")
    backward(net, x, y)
    with torch.no_grad():
        own = net(x)
    optimizer.step()
    with torch.no_grad():
        assert not torch.equal(net(x), own)
