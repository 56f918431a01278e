"""Models that libraries of our kind get wrong: here exact, or refused; never silent."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from dpsgd_explorer.errors import UnsupportedModuleError
from tests.dp.engines.test_engines_agree import EXACT, check_clipped_sum
from tests.dp.nets import attached, clipped_sum, total_norm

C = 0.3


class Images(nn.Module):
    """One convolution before a linear head."""

    def __init__(self, layer):
        super().__init__()
        self.layer, self.head = layer, nn.LazyLinear(3)

    def forward(self, x):
        return self.head(torch.tanh(self.layer(x)).flatten(1))


class Tokens(nn.Module):
    """Ids of any shape, embedded and averaged."""

    def __init__(self, **options):
        super().__init__()
        self.tokens, self.head = nn.Embedding(5, 4, **options), nn.Linear(4, 3)

    def forward(self, ids):
        return self.head(self.tokens(ids).reshape(len(ids), -1, 4).tanh().mean(1))


class Bags(nn.Module):
    def __init__(self, mode):
        super().__init__()
        self.bag, self.head = nn.EmbeddingBag(5, 4, mode=mode), nn.Linear(4, 3)

    def forward(self, ids):
        return self.head(self.bag(ids))


class Places(nn.Module):
    """Token and position vectors, positions given once for all samples."""

    def __init__(self):
        super().__init__()
        self.tokens, self.places = nn.Embedding(5, 4), nn.Embedding(6, 4)
        self.norm, self.head = nn.LayerNorm(4, bias=False), nn.Linear(4, 3)

    def forward(self, ids):
        places = torch.arange(ids.shape[1]).expand(1, -1)
        return self.head(self.norm(self.tokens(ids) + self.places(places)).mean(1))


class Reused(nn.Module):
    def __init__(self, times):
        super().__init__()
        self.layer, self.head = nn.Linear(4, 4), nn.Linear(4, 3)
        self.times = times

    def forward(self, x):
        for _ in range(self.times):
            x = torch.relu(self.layer(x))
        return self.head(x)


class TiedTokens(Tokens):
    """The output layer is the embedding."""

    def __init__(self):
        super().__init__()
        self.out = nn.Linear(4, 5)
        self.out.weight = self.tokens.weight

    def forward(self, ids):
        return self.out(self.tokens(ids)).mean(1)[:, :3] + super().forward(ids)


class Unused(Reused):
    """A trainable layer that forward never calls, registered first."""

    def __init__(self):
        super().__init__(1)
        self.idle = nn.Linear(4, 4)


class HeadFirst(nn.Module):
    """Registered in another order than it runs in."""

    def __init__(self):
        super().__init__()
        self.head, self.body = nn.Linear(4, 3), nn.Linear(4, 4)

    def forward(self, x):
        return self.head(torch.tanh(self.body(x)))


class Scaled(nn.Module):
    """A bare parameter, and activations with parameters."""

    def __init__(self):
        super().__init__()
        self.scale, self.act = nn.Parameter(torch.rand(4)), nn.PReLU()
        self.norm, self.head = nn.RMSNorm(4), nn.Linear(4, 3)

    def forward(self, x):
        return self.head(self.norm(self.act(x * self.scale)))


def biases_only(net):
    for name, p in net.named_parameters():
        p.requires_grad_(name.endswith("bias"))
    return net


def conv(dims, *args, **options):
    return (nn.Conv1d, nn.Conv2d, nn.Conv3d)[dims - 1](*args, **options)


VECTORS = torch.Size([4])
IMAGES = torch.Size([4, 6, 6])
CASES = {
    "groups": (lambda: Images(conv(2, 4, 6, 3, groups=2)), IMAGES),
    "groups, 1-D": (lambda: Images(conv(1, 4, 6, 3, groups=2)), [4, 6]),
    "depthwise": (lambda: Images(conv(2, 4, 4, 3, groups=4)), IMAGES),
    "same": (lambda: Images(conv(2, 4, 3, 3, padding="same")), IMAGES),
    "circular": (
        lambda: Images(conv(2, 4, 3, 3, padding=1, padding_mode="circular")),
        IMAGES,
    ),
    "reflect": (
        lambda: Images(conv(2, 4, 3, 3, padding=1, padding_mode="reflect")),
        IMAGES,
    ),
    "3-D": (lambda: Images(conv(3, 4, 3, 2)), [4, 3, 3, 3]),
    "transposed": (lambda: Images(nn.ConvTranspose2d(4, 3, 3, stride=2)), [4, 3, 3]),
    "1-D ids": (Tokens, "ids", ()),
    "padding_idx": (lambda: Tokens(padding_idx=0), "ids", (4,)),
    "bag, sum": (lambda: Bags("sum"), "ids", (4,)),
    "bag, mean": (lambda: Bags("mean"), "ids", (4,)),
    "bag, max": (lambda: Bags("max"), "ids", (4,)),
    "shared positions": (Places, "ids", (4,)),
    "2 times": (lambda: Reused(2), VECTORS),
    "5 times": (lambda: Reused(5), VECTORS),
    "tied": (TiedTokens, "ids", (4,)),
    "unused": (Unused, VECTORS),
    "head first": (HeadFirst, VECTORS),
    "bare, PReLU, RMSNorm": (Scaled, VECTORS),
    "biases only": (lambda: biases_only(HeadFirst()), VECTORS),
    "4-D linear": (lambda: Images(nn.Linear(6, 2)), IMAGES),
    "root": (lambda: nn.Linear(4, 3), VECTORS),
}


@pytest.fixture(params=CASES)
def case(request):
    torch.manual_seed(0)
    make, *shape = CASES[request.param]
    if shape[0] == "ids":
        x = torch.randint(0, 5, (5, *shape[1]))
    else:
        x = torch.randn(5, *shape[0], dtype=torch.float64)
    net = make().double()
    with torch.no_grad():
        net(x)  # lazy layers find their size
    return net, x, torch.randint(0, 3, (5,))


def test_the_clipped_sum_is_exact(case):
    check_clipped_sum(*case)


def test_no_sample_is_longer_than_the_bound_and_one_is_as_long(case):
    net, x, y = case
    if x.is_floating_point():
        x = x * 1e3
    options = {"clipping_fn": "Abadi", "max_grad_norm": 1e-6}
    lengths = [
        total_norm(clipped_sum(net, x[i : i + 1], y[i : i + 1], **options)) / 1e-6
        for i in range(2)
    ]
    assert max(lengths) <= 1 + 1e-9
    assert max(lengths) > 1 - 1e-6


@pytest.mark.parametrize("mode", ["ghost", "instantiate"])
def test_a_sample_that_is_not_finite_contributes_nothing(mode):
    torch.manual_seed(0)
    net = nn.Sequential(nn.LSTM(4, 4, batch_first=True), Last(), Scaled()).double()
    x, y = torch.randn(5, 3, 4, dtype=torch.float64), torch.randint(0, 3, (5,))
    others = torch.tensor([0, 1, 3, 4])
    expected = clipped_sum(net, x[others], y[others], max_grad_norm=C)
    x[2, 1, 0] = torch.nan
    actual = clipped_sum(net, x, y, max_grad_norm=C, clipping_mode=mode)
    torch.testing.assert_close(actual, expected, **EXACT)


class Last(nn.Module):
    def forward(self, outputs):
        return outputs[0][:, -1]


REFUSED = {
    "ids by frequency": lambda: Tokens(scale_grad_by_freq=True),
    "batch norm": lambda: nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3)),
    "frozen batch norm": lambda: nn.Sequential(
        nn.Linear(4, 3), nn.BatchNorm1d(3, affine=False)
    ),
}


@pytest.mark.parametrize("make", REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_exact_is_refused_when_attached(make):
    with pytest.raises(UnsupportedModuleError):
        attached(make())


def test_loss_terms_that_are_left_out_are_left_out_per_sample():
    torch.manual_seed(0)
    net = nn.Linear(4, 3).double()
    x, y = torch.randn(5, 4, dtype=torch.float64), torch.tensor([0, -100, 2, -100, 1])

    def loss(reduction):
        return F.cross_entropy(net(x), y, reduction=reduction)

    engine, optimizer = attached(net, loss_reduction="sum", max_grad_norm=C)
    loss("sum").backward()
    optimizer.step()
    assert engine.diagnostics.norms[[1, 3]].tolist() == pytest.approx([0.0, 0.0])
    assert (engine.diagnostics.norms[[0, 2, 4]] > 0).all()
