"""Every trainable parameter is reached exactly, or the module is refused."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from dpsgd_explorer.dp.config import CHOICES
from dpsgd_explorer.dp.engines.hooks import HooksEngine
from dpsgd_explorer.errors import UnsupportedModuleError
from tests.dp.engines.test_engines_agree import check_clipped_sum
from tests.dp.nets import attached, clipped_sum

MODES = pytest.mark.parametrize("mode", CHOICES["clipping_mode"])


class Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.head = nn.Linear(4, 4), nn.Linear(4, 3)

    def forward(self, x):
        return self.head(self.layer(torch.tanh(self.layer(x))))


class Often(nn.Module):
    """One convolution, one norm and one attention, each called three times."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(4, 4, 3, padding=1)
        self.norm, self.mix = nn.GroupNorm(2, 4), nn.MultiheadAttention(4, 2)
        self.head = nn.Linear(16, 3)

    def forward(self, x):
        x = x.unsqueeze(2) * torch.arange(4.0, dtype=x.dtype)
        for _ in range(3):
            x = torch.tanh(self.norm(self.conv(x)))
            x = self.mix(x.movedim(2, 0), x.movedim(2, 0), x.movedim(2, 0))[0]
            x = x.movedim(0, 2)
        return self.head(x.flatten(1))


class Tied(nn.Module):
    """One weight for two layers, which have biases of their own."""

    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(4, 4), nn.Linear(4, 4)
        self.two.weight = self.one.weight
        self.head = nn.Linear(4, 3)

    def forward(self, x):
        return self.head(self.two(torch.tanh(self.one(x))))


class LanguageModel(nn.Module):
    """Embedding tied to the output layer, and positions that all samples share."""

    def __init__(self):
        super().__init__()
        self.tokens, self.places = nn.Embedding(5, 4), nn.Embedding(6, 4)
        self.cell = nn.GRU(4, 4, batch_first=True)
        self.out = nn.Linear(4, 5)
        self.out.weight = self.tokens.weight

    def forward(self, x):
        ids = (x.abs() * 10).long() % 5
        hidden = self.tokens(ids) + self.places(torch.arange(4).unsqueeze(0))
        return self.out(self.cell(hidden)[0]).mean(1)[:, :3]


class SharedCell(nn.Module):
    """A recurrent layer that runs over its own outputs, and one with its weights."""

    def __init__(self):
        super().__init__()
        self.cell, self.head = nn.LSTM(3, 3), nn.Linear(3, 3)
        self.other = nn.LSTM(3, 3)
        self.other.weight_hh_l0 = self.cell.weight_hh_l0

    def forward(self, x):
        steps = x.t().unsqueeze(2).expand(-1, -1, 3)
        return self.head(self.other(self.cell(self.cell(steps)[0])[0])[0][-1])


class Places(nn.Module):
    """Ids and vectors of positions that know nothing of samples."""

    def __init__(self):
        super().__init__()
        self.flat, self.row = nn.Embedding(4, 3), nn.Embedding(4, 3)
        self.mix, self.head = nn.Linear(3, 3), nn.Linear(1, 3)

    def forward(self, x):
        flat = self.flat(torch.arange(4))
        row = self.mix(self.row(torch.arange(4).unsqueeze(0)))
        return (self.head(x.unsqueeze(-1)) + flat * row).sum(1)


class PositionsFirst(nn.Module):
    """Puts positions where samples usually are."""

    def __init__(self):
        super().__init__()
        self.token, self.head = (
            nn.Linear(1, 3),
            nn.TransformerEncoderLayer(3, 1, 4, 0.0),
        )

    def forward(self, x):
        return self.head(self.token(x.T.unsqueeze(-1))).sum(0)


class Bare(nn.Module):
    """Parameters of no layer, around layers with rules."""

    def __init__(self):
        super().__init__()
        self.scale, self.shift = (
            nn.Parameter(torch.rand(4)),
            nn.Parameter(torch.rand(())),
        )
        self.start = nn.Parameter(torch.rand(1, 2, 4))
        self.body = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.LSTM(4, 3))
        self.body = nn.ModuleDict({"mix": nn.Linear(4, 4), "cell": nn.LSTM(4, 3, 2)})

    def forward(self, x):
        x = torch.stack([x * self.scale, x - self.shift], 1)
        x = torch.cat([self.start.expand(len(x), -1, -1), self.body["mix"](x)], 1)
        return self.body["cell"](x.transpose(0, 1))[0][-1]


class Inherited(nn.Linear):
    """A weight of its own beside those of its kind."""

    def __init__(self):
        super().__init__(4, 3)
        self.gain = nn.Parameter(torch.ones(3))

    def forward(self, x):
        return super().forward(x) * self.gain.exp()


class Mirrored(nn.Module):
    """Convolutions that share weights: called twice, and plain with transposed."""

    def __init__(self):
        super().__init__()
        self.first, self.down = nn.Conv2d(1, 2, 1), nn.Conv2d(2, 3, 2, bias=False)
        self.again = nn.Conv2d(2, 2, (1, 2), padding=(0, 1))
        self.up = nn.ConvTranspose2d(3, 2, 2)
        self.up.weight = self.down.weight
        self.head = nn.Linear(2, 3)

    def forward(self, x):
        image = torch.tanh(self.first(x.view(-1, 1, 2, 2)))
        image = torch.tanh(self.up(torch.tanh(self.down(image))))
        return self.head(self.again(self.again(image)).sum((2, 3)))


class Unfrozen(nn.Module):
    """Attention of which the output map alone is trained."""

    def __init__(self):
        super().__init__()
        self.mix = nn.MultiheadAttention(4, 2, batch_first=True)
        self.mix.requires_grad_(False).out_proj.requires_grad_(True)

    def forward(self, x):
        x = torch.stack([x, x.flip(1)], 1)
        return self.mix(x, x, x)[0].sum(1)[:, :3]


COVERED = pytest.mark.parametrize(
    "make",
    [Twice, Often, Tied, LanguageModel, SharedCell, Places, PositionsFirst, Bare,
     Inherited, Mirrored, Unfrozen],
    ids=lambda kind: kind.__name__,
)  # fmt: skip


def data(size=5):
    torch.manual_seed(1)
    x = torch.randn(size, 4, dtype=torch.float64)
    return x, torch.randint(0, 3, (size,))


@pytest.mark.sweep(1)
@MODES
@COVERED
def test_parameters_are_reached_however_they_are_used(make, mode):
    torch.manual_seed(0)
    check_clipped_sum(make().double(), *data(), clipping_mode=mode)


@COVERED
def test_as_many_samples_as_positions_are_not_confused(make):
    torch.manual_seed(0)
    check_clipped_sum(make().double(), *data(4))


class Borrowed(nn.Module):
    """Uses a weight without calling its layer."""

    def __init__(self):
        super().__init__()
        self.layer, self.head = nn.Linear(4, 4), nn.Linear(4, 3)

    def forward(self, x):
        return self.head(self.layer(x)) @ self.head.weight


class OnlyBorrowed(Borrowed):
    def forward(self, x):
        return F.linear(x, self.layer.weight) + self.head(x).sum(1, keepdim=True)


class Hooked(nn.Module):
    """A hook changes what a layer returns, in a way that depends on its weight."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(4, 3)
        self.head.register_forward_hook(lambda m, args, out: out * m.weight.sum())

    def forward(self, x):
        return self.head(x)


class Folded(nn.Module):
    """Counts positions as samples."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(2, 3)

    def forward(self, x):
        return self.head(x.reshape(-1, 2)).reshape(len(x), -1)


class ByHand(nn.Module):
    """Tells torch.func more than one sample can know."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(3))

    def forward(self, x):
        return x[:, :3] * self.scale if float(x.abs().sum()) > 0 else x[:, :3]


UNCOVERED = {
    Borrowed: "head.weight do not add up",
    OnlyBorrowed: "layer.weight do not add up",
    Hooked: "head.weight do not add up",
    ByHand: r"the module \(ByHand\) has no layer rule, and torch.func.vmap cannot",
}


@pytest.mark.parametrize("kind", UNCOVERED, ids=lambda kind: kind.__name__)
def test_uses_that_the_rules_do_not_see_are_refused(kind):
    net = kind()
    attached(net)
    with pytest.raises(UnsupportedModuleError, match=UNCOVERED[kind]):
        net(torch.randn(5, 4))
    assert all(p.requires_grad for p in net.parameters())


class FoldedPositionFirst(Folded):
    """Mixes up the order of samples and positions."""

    def forward(self, x):
        folded = x.view(len(x), -1, 2).transpose(0, 1).reshape(-1, 2)
        return self.head(folded).view(-1, len(x), 3).transpose(0, 1).flatten(1)


def test_positions_folded_into_the_batch_are_exact():
    torch.manual_seed(0)
    net, x, y = Folded().double(), torch.randn(5, 4).double(), torch.arange(5) % 3
    options = {"max_grad_norm": 0.5, "clipping_fn": "Abadi"}
    expected = clipped_sum(net, x, y, engine="microbatch", **options)
    found = clipped_sum(net, x, y, **options)
    for name, gradient in expected.items():
        torch.testing.assert_close(found[name], gradient, msg=name)


def test_samples_folded_behind_positions_are_refused():
    net = FoldedPositionFirst()
    attached(net)
    with pytest.raises(UnsupportedModuleError, match=r"mixes|must not depend"):
        net(torch.randn(5, 4))


@pytest.mark.parametrize("kind", [Borrowed, Folded, ByHand])
def test_the_plain_engine_takes_them(kind):
    net = kind()
    attached(net, engine="microbatch")
    net(torch.randn(5, 4))


def test_frozen_it_is_accepted():
    net = nn.Sequential(nn.PReLU().requires_grad_(False), nn.Linear(4, 3))
    attached(net)
    net(torch.randn(5, 4))


def test_a_module_without_trainable_parameters_is_refused():
    net = nn.Linear(4, 3).requires_grad_(False)
    with pytest.raises(UnsupportedModuleError, match="no trainable parameters"):
        HooksEngine(net, clipping_mode="MixOpt", loss_reduction="mean")
