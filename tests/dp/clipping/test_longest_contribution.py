"""No clipped sample is longer than C, by more than what the noise makes up for.

Searched for in float32, where positions nearly cancel: there the norm is what is left
of much larger numbers, and so is the sum.
"""

import copy
import functools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from dpsgd_explorer.dp.backends.full_precision import full_precision
from dpsgd_explorer.dp.clipping.clipped_sum import ClippedSum
from dpsgd_explorer.dp.clipping.clipper import Clipper
from dpsgd_explorer.dp.engines.extending import ExtendingEngine
from dpsgd_explorer.dp.engines.hooks import HooksEngine
from dpsgd_explorer.dp.engines.microbatch import MicrobatchEngine
from dpsgd_explorer.dp.engines.norm_choice import CLIPPING_MODES
from dpsgd_explorer.dp.engines.vmap import VmapEngine
from dpsgd_explorer.dp.functional import AveragedViews
from dpsgd_explorer.dp.layers import register_rule
from dpsgd_explorer.dp.layers.linear import LinearNorm, LinearRule
from dpsgd_explorer.dp.noise.secure import ROUNDING_MARGIN
from dpsgd_explorer.training.cpu import kernels


class Called(nn.Module):
    """Sends positions [B, T, d] through a layer that takes them in its own way."""

    def __init__(self, layer, before=None, width=None):
        super().__init__()
        self.layer = layer
        self.before = before or unchanged
        self.width = width or layer.in_features

    def forward(self, x):
        out = self.layer(self.before(x))
        return out[0] if isinstance(out, tuple) else out


class Tied(nn.Module):
    """A weight with two uses, of which one takes back most of the other."""

    width, before = 16, None

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(16, 8)

    def forward(self, x):
        return torch.cat([self.layer(x[:, ::2]), self.layer(x[:, 1::2].flip(1))], 1)


class Model(nn.Module):
    """An embedding that is also the head."""

    width, before = 16, None

    def __init__(self):
        super().__init__()
        self.table, self.head = nn.Embedding(8, 16), nn.Linear(16, 8, bias=False)
        self.head.weight = self.table.weight

    def forward(self, x):
        return self.head(x + 1e-3 * self.table(ids(x)))


class Bare(nn.Module):
    """A parameter that no layer has."""

    width, before = 16, None

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(16))

    def forward(self, x):
        return x * self.scale


def ids(x):
    return (x[..., 0].abs() * 9).long() % 8


def channels(x):
    return x.transpose(1, 2)


def image(x):
    return x.transpose(1, 2).unflatten(2, (2, -1))


def volume(x):
    return image(x).unsqueeze(2)


def unchanged(x):
    return x


CHANNELS_FIRST = (channels, image, volume)


def steps(layer):
    return Called(layer, width=layer.input_size)


NETS = {
    "Linear": lambda: Called(nn.Linear(64, 64, bias=False)),
    "Linear, wide": lambda: Called(nn.Linear(256, 64)),
    "Linear, bias": lambda: Called(nn.Linear(8, 8).requires_grad_(False)),
    "Conv1d": lambda: Called(nn.Conv1d(16, 8, 3, padding=1), channels, 16),
    "Conv2d": lambda: Called(nn.Conv2d(64, 16, 1), image, 64),
    "Conv2d, groups": lambda: Called(nn.Conv2d(16, 8, 1, groups=4), image, 16),
    "Conv3d": lambda: Called(nn.Conv3d(16, 8, 1), volume, 16),
    "ConvTranspose1d": lambda: Called(nn.ConvTranspose1d(16, 8, 2), channels, 16),
    "Embedding": lambda: Called(nn.Embedding(8, 16), ids, 4),
    "EmbeddingBag": lambda: Called(nn.EmbeddingBag(8, 16, mode="sum"), ids, 4),
    "LayerNorm": lambda: Called(nn.LayerNorm(16), width=16),
    "RMSNorm": lambda: Called(nn.RMSNorm(16), width=16),
    "GroupNorm": lambda: Called(nn.GroupNorm(2, 16), channels, 16),
    "InstanceNorm1d": lambda: Called(nn.InstanceNorm1d(16, affine=True), channels, 16),
    "PReLU": lambda: Called(nn.PReLU(16), channels, 16),
    "RNN": lambda: steps(nn.RNN(16, 8, batch_first=True)),
    "GRU": lambda: steps(nn.GRU(16, 8, batch_first=True)),
    "LSTM": lambda: steps(nn.LSTM(16, 8, batch_first=True)),
    "attention": lambda: Called(
        nn.TransformerEncoderLayer(16, 2, 16, 0.0, batch_first=True), width=16
    ),
    "tied": Tied,
    "language model": Model,
    "bare parameter": Bare,
}
ENGINES = {
    "hooks": HooksEngine,
    "extending": ExtendingEngine,
    "vmap": VmapEngine,
    "microbatch": MicrobatchEngine,
}
WAYS = {(engine, "MixOpt") for engine in ENGINES}
WAYS |= {("hooks", mode) for mode in CLIPPING_MODES}
NOT_MAPPED = ("RNN", "GRU", "LSTM", "EmbeddingBag", "attention")


class Clipped:
    """A net of which one way's clipped sums, with C = 1, are looked at."""

    def __init__(self, net, engine, mode):
        self.net = net
        gradient_engine = ENGINES[engine](net, clipping_mode=mode, loss_reduction="sum")
        parameters = gradient_engine.parameters()
        self.sum = ClippedSum(parameters, Clipper("Abadi", [list(parameters)], [1.0]))
        gradient_engine.on_gradients = self.sum.add
        gradient_engine.start()

    def length(self, x, slopes_of):
        """Return how long the sum is under a linear loss."""
        self.sum.reset()
        outputs = self.net(x)
        (outputs * slopes_of(outputs)).sum().backward()
        return norm_of(self.sum)


def norm_of(total):
    """Return the norm of a clipped sum, in float64."""
    entries = [own for each in total.sums.values() for own in each.values()]
    return torch.cat([own.double().flatten() for own in entries]).norm().item()


@functools.cache
def prepared(name):
    """Return {(engine, mode): Clipped} of a net."""
    torch.manual_seed(0)
    net = NETS[name]()
    if name == "Linear, bias":
        net.layer.bias.requires_grad_(True)
    ways = [way for way in WAYS if way[0] != "vmap" or name not in NOT_MAPPED]
    return {way: Clipped(copy.deepcopy(net), *way) for way in ways}


def cancelling(seed, width, positions, distance):
    """Return a sample of positions that are nearly the same, [1, T, d]."""
    torch.manual_seed(seed)
    first = torch.randn(1, 1, width)
    apart = torch.randn(1, positions, width)
    lengths = first.norm(), apart.norm(dim=2, keepdim=True)
    return first + 10**distance * apart / lengths[1] * lengths[0]


def slopes_like(outputs, net, seed, scale=0.0, distance=-9.0):
    """Return slopes that take each other back over the positions, but for a part."""
    torch.manual_seed(seed)
    turned = outputs.movedim(1, -1) if net.before in CHANNELS_FIRST else outputs
    slopes = torch.randn(turned.shape[-1]) * 10**scale
    slopes = slopes.expand(turned.shape[1:]).clone()
    slopes.view(-1, turned.shape[-1])[1::2] *= -1.0
    slopes *= 1 + 10**distance * torch.randn(slopes.shape)
    return slopes.movedim(-1, 0) if net.before in CHANNELS_FIRST else slopes


PINNED = (
    {"seed": 66, "distances": (-3.4, -9.0), "scale": 3.0, "positions": 2},
    {"seed": 59, "distances": (-6.0, -6.0), "scale": 6.0, "positions": 2},
    {"seed": 2, "distances": (-5.0, -5.0), "scale": 6.0, "positions": 4},
    {"seed": 1, "distances": (-6.0, -6.0), "scale": 6.0, "positions": 2},
)


@pytest.mark.parametrize("name", NETS)
@pytest.mark.parametrize("pinned", PINNED, ids=lambda pinned: str(pinned["seed"]))
def test_cancelling_positions_add_no_more_than_c(name, pinned):
    cancelling_adds_no_more_than_c(name, **pinned)


@pytest.mark.long("long statistics")
@pytest.mark.parametrize("name", NETS)
@settings(max_examples=15, deadline=None, derandomize=True, database=None)
@given(
    seed=st.integers(0, 2**31),
    distances=st.tuples(st.floats(-7, 0), st.floats(-9, 0)),
    scale=st.floats(-1, 6),
    positions=st.sampled_from([2, 2, 4, 6]),
)
def test_drawn_cancelling_positions_add_no_more_than_c(name, **drawn):
    cancelling_adds_no_more_than_c(name, **drawn)


def cancelling_adds_no_more_than_c(name, seed, distances, scale, positions):
    for way, clipped in prepared(name).items():
        x = cancelling(seed, clipped.net.width, positions, distances[0])
        slopes = functools.partial(
            slopes_like,
            net=clipped.net,
            seed=seed,
            scale=scale,
            distance=distances[1],
        )
        found = clipped.length(x, slopes)
        assert found <= ROUNDING_MARGIN, way


def test_the_sample_that_once_was_half_as_long_again_is_not():
    """Of 400 such samples, one came out of Gram products 1.5 times as long as C."""
    torch.manual_seed(66)
    first, slopes = torch.randn(400, 1, 64), torch.randn(400, 64)
    distances = 10 ** torch.empty(400, 1, 1).uniform_(-3.6, -3.1)
    apart = torch.randn(400, 2, 64)
    unit = apart / apart.norm(dim=2, keepdim=True)
    samples = first + distances * unit * first.norm(dim=2, keepdim=True)
    clipped = prepared("Linear")["hooks", "MixOpt"]
    found = [
        clipped.length(x[None], lambda out, g=g: torch.stack([g, -g]) * 1e3)
        for x, g in zip(samples, slopes, strict=True)
    ]
    assert max(found) <= ROUNDING_MARGIN


@pytest.mark.parametrize("engine", ENGINES)
def test_many_equal_entries_add_no_more_than_c(engine):
    """Additions of equal numbers err all to one side."""
    clipped = Clipped(nn.Linear(1500, 500, bias=False), engine, "instantiate")
    for value in torch.linspace(1, 2, 9).tolist():
        x = torch.full((1, 1500), value)
        assert clipped.length(x, torch.ones_like) <= ROUNDING_MARGIN


@pytest.mark.parametrize("mode", CLIPPING_MODES)
@pytest.mark.parametrize(
    "net",
    [Called(nn.Linear(3, 2)), Called(nn.Conv1d(3, 2, 1), channels, 3)],
    ids=["Linear", "Conv1d"],
)
def test_long_sequences_add_no_more_than_c(net, mode):
    clipped = Clipped(copy.deepcopy(net), "hooks", mode)
    for seed in range(5):
        x = cancelling(seed, 3, 900, -3.0)
        found = clipped.length(x, lambda out, s=seed: slopes_like(out, net, s))
        assert found <= ROUNDING_MARGIN


@pytest.mark.parametrize("layers", [1, 300])
def test_many_layers_together_add_no_more_than_c(layers):
    torch.manual_seed(0)
    net = nn.Sequential(*[nn.Linear(2, 2) for _ in range(layers)])
    for own in net:
        nn.init.orthogonal_(own.weight)
    clipped = Clipped(net, "hooks", "MixOpt")
    for seed in range(5):
        torch.manual_seed(seed)
        assert (
            clipped.length(1e3 * torch.randn(1, 2), torch.ones_like) <= ROUNDING_MARGIN
        )


def test_views_that_cancel_add_no_more_than_c():
    torch.manual_seed(0)
    net = nn.Linear(16, 8)
    gradient_engine = HooksEngine(net, clipping_mode="MixOpt", loss_reduction="sum")
    parameters = gradient_engine.parameters()
    total = ClippedSum(parameters, Clipper("Abadi", [list(parameters)], [1.0]))
    gradient_engine.on_gradients = lambda rows: total.add(
        AveragedViews(rows, 2, parameters)
    )
    gradient_engine.start()
    for seed in range(20):
        total.reset()
        views = cancelling(seed, 16, 2, -5.0)[0]
        slope = 1e6 * torch.randn(8)
        (net(views) * torch.stack([slope, -slope])).sum().backward()
        assert norm_of(total) <= ROUNDING_MARGIN


class Watched(nn.Linear):
    """A linear layer whose ghost norm notes how products may be made."""


class WatchedNorm(LinearNorm):
    def __init__(self):
        self.seen = []

    def squared_norms(self, *given):
        self.seen.append(torch.backends.mkldnn.matmul.fp32_precision)
        return super().squared_norms(*given)

    def add_weighted(self, *given):
        self.seen.append(torch.backends.mkldnn.matmul.fp32_precision)
        super().add_weighted(*given)


def test_norms_and_sums_take_no_permission_to_round_products():
    norm = WatchedNorm()

    class WatchedRule(LinearRule):
        ghost_norm = norm

    take_out = register_rule(Watched, WatchedRule())
    before = torch.get_float32_matmul_precision()
    try:
        clipped = Clipped(Watched(4, 3), "hooks", "ghost")
        torch.set_float32_matmul_precision("medium")
        clipped.length(torch.randn(1, 4), torch.ones_like)
        assert torch.get_float32_matmul_precision() == "medium"
        assert torch.backends.mkldnn.matmul.fp32_precision == "bf16"
    finally:
        torch.set_float32_matmul_precision(before)
        take_out()
    assert norm.seen == ["ieee", "ieee"]


def test_kernels_keep_the_products_that_they_have_verified():
    with kernels._onednn_products(), full_precision():
        assert torch.backends.mkldnn.matmul.fp32_precision == "bf16"
    assert torch.backends.mkldnn.matmul.fp32_precision != "bf16"
