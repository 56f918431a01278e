"""Layers and inputs to try each rule on, drawn by hypothesis; all float64."""

import torch
from hypothesis import assume
from hypothesis import strategies as st
from torch import nn

from tests.dp.layers.oracle import Case
from tests.dp.layers.sequence_cases import attention, recurrent

BATCH = st.integers(0, 3)
FEATURES = st.integers(1, 4)
SMALL = st.integers(1, 2)
MODES = st.sampled_from(["zeros", "reflect", "replicate", "circular"])


class Net(nn.Module):
    """Calls one layer on the inputs, after something that needs a gradient or not."""

    def __init__(self, layer, inner=False):
        super().__init__()
        self.layer, self.inner = layer, inner

    def forward(self, *inputs):
        first = inputs[0]
        if self.inner and first.is_floating_point():
            first = first.clone().requires_grad_() * 1.0
        return self.layer(first, *inputs[1:])


@st.composite
def linear(draw):
    d, p = draw(FEATURES), draw(FEATURES)
    between = draw(st.lists(st.integers(1, 4), max_size=3))  # 2-D to 5-D inputs
    return nn.Linear(d, p, bias=draw(st.booleans())), torch.randn(
        draw(BATCH), *between, d
    )


def each(draw, strategy, dims):
    return tuple(draw(strategy) for _ in range(dims))


def convolution(dims):
    kind = (nn.Conv1d, nn.Conv2d, nn.Conv3d)[dims - 1]

    @st.composite
    def case(draw):
        groups = draw(st.sampled_from([1, 1, 2, 3]))
        padding = draw(st.sampled_from([0, 1, 2, "same", "valid", "uneven"]))
        if padding == "uneven":
            padding = each(draw, st.integers(0, 2), dims)
        stride = each(draw, st.integers(1, 3), dims)
        layer = kind(
            groups * draw(SMALL),
            groups * draw(SMALL),
            each(draw, st.integers(1, 3), dims),
            stride=1 if padding == "same" else stride,
            padding=padding,
            dilation=each(draw, SMALL, dims),
            groups=groups,
            bias=draw(st.booleans()),
            padding_mode=draw(MODES),
        )
        size = each(draw, st.integers(5, 6), dims)
        return layer, torch.randn(draw(BATCH), layer.in_channels, *size)

    return case()


def transposed(dims):
    kind = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)[dims - 1]

    @st.composite
    def case(draw):
        groups = draw(st.sampled_from([1, 1, 2]))
        stride, dilation = each(draw, SMALL, dims), each(draw, SMALL, dims)
        limits = [max(s, d) - 1 for s, d in zip(stride, dilation, strict=True)]
        layer = kind(
            groups * draw(SMALL),
            groups * draw(SMALL),
            each(draw, st.integers(1, 3), dims),
            stride=stride,
            padding=each(draw, st.integers(0, 1), dims),
            output_padding=tuple(draw(st.integers(0, most)) for most in limits),
            dilation=dilation,
            groups=groups,
            bias=draw(st.booleans()),
        )
        size = each(draw, st.integers(3, 4), dims)
        return layer, torch.randn(draw(BATCH), layer.in_channels, *size)

    return case()


@st.composite
def group_norm(draw):
    groups = draw(st.integers(1, 3))
    channels = groups * draw(SMALL)
    between = draw(st.lists(st.integers(1, 4), max_size=3))
    assume(channels // groups * torch.Size(between).numel() > 1)  # else torch refuses
    return nn.GroupNorm(groups, channels), torch.randn(draw(BATCH), channels, *between)


def instance_norm(dims):
    kind = (nn.InstanceNorm1d, nn.InstanceNorm2d, nn.InstanceNorm3d)[dims - 1]

    @st.composite
    def case(draw):
        channels = draw(st.integers(1, 3))
        size = each(draw, st.integers(2, 3), dims)
        layer = kind(channels, affine=True, eps=draw(st.sampled_from([1e-5, 0.1])))
        # torch itself takes no empty batch here
        return layer, torch.randn(draw(st.integers(1, 3)), channels, *size)

    return case()


@st.composite
def layer_norm(draw):
    shape = draw(st.lists(st.integers(2, 4), min_size=1, max_size=3))
    between = draw(st.lists(st.integers(1, 3), max_size=2))
    layer = nn.LayerNorm(shape, bias=draw(st.booleans()))
    return layer, torch.randn(draw(BATCH), *between, *shape)


@st.composite
def rms_norm(draw):
    shape = draw(st.lists(st.integers(2, 4), min_size=1, max_size=2))
    between = draw(st.lists(st.integers(1, 3), max_size=2))
    layer = nn.RMSNorm(shape, eps=draw(st.sampled_from([None, 0.1])))
    return layer, torch.randn(draw(BATCH), *between, *shape)


@st.composite
def prelu(draw):
    channels = draw(st.integers(1, 3))
    between = draw(st.lists(st.integers(1, 3), max_size=2))
    layer = nn.PReLU(draw(st.sampled_from([1, channels])))
    return layer, torch.randn(draw(BATCH), channels, *between)


@st.composite
def embedding(draw):
    count = draw(st.integers(1, 5))  # few, so that ids repeat
    padding = draw(st.sampled_from([None, 0, count - 1, -1]))
    layer = nn.Embedding(count, draw(FEATURES), padding_idx=padding)
    between = draw(st.lists(st.integers(1, 4), max_size=2))
    return layer, torch.randint(0, count, (draw(BATCH), *between))


class Ragged(nn.Module):
    """Hands the bags over as one row of ids with offsets."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, ids, lengths, weights):
        inside = torch.arange(ids.shape[1]) < lengths.unsqueeze(1)
        ends = lengths.cumsum(0)
        offsets = torch.cat([ends.new_zeros(1), ends])
        if not self.layer.include_last_offset:
            offsets = offsets[:-1]
        own = weights[inside] if self.layer.mode == "sum" else None
        return self.layer(ids[inside], offsets, own)


@st.composite
def embedding_bag(draw):
    count = draw(st.integers(1, 4))
    layer = nn.EmbeddingBag(
        count,
        draw(FEATURES),
        mode=draw(st.sampled_from(["sum", "mean", "max"])),
        padding_idx=draw(st.sampled_from([None, 0, -1])),
        include_last_offset=draw(st.booleans()),
    )
    batch, length = draw(BATCH), draw(st.integers(1, 5))
    ids = torch.randint(0, count, (batch, length))
    if draw(st.booleans()):
        return layer, ids
    lengths = torch.randint(0, length + 1, (batch,))
    return Ragged(layer), (ids, lengths, torch.randn(batch, length))


CASES = {
    nn.Linear: linear(),
    nn.Conv1d: convolution(1),
    nn.Conv2d: convolution(2),
    nn.Conv3d: convolution(3),
    nn.ConvTranspose1d: transposed(1),
    nn.ConvTranspose2d: transposed(2),
    nn.ConvTranspose3d: transposed(3),
    nn.GroupNorm: group_norm(),
    nn.InstanceNorm1d: instance_norm(1),
    nn.InstanceNorm2d: instance_norm(2),
    nn.InstanceNorm3d: instance_norm(3),
    nn.LayerNorm: layer_norm(),
    nn.RMSNorm: rms_norm(),
    nn.PReLU: prelu(),
    nn.Embedding: embedding(),
    nn.EmbeddingBag: embedding_bag(),
    nn.RNN: recurrent(nn.RNN),
    nn.GRU: recurrent(nn.GRU),
    nn.LSTM: recurrent(nn.LSTM),
    nn.MultiheadAttention: attention(),
}


def double(x):
    return x.double() if x.is_floating_point() else x


@st.composite
def rule_case(draw, kind):
    """Draw a case: random values, maybe a frozen parameter."""
    torch.manual_seed(draw(st.integers(0, 2**16)))
    layer, inputs = draw(CASES[kind])
    inputs = inputs if isinstance(inputs, tuple) else (inputs,)
    net = Net(layer, inner=draw(st.booleans())).double()
    for parameter in net.parameters():
        nn.init.normal_(parameter)  # norms start at 1 and 0, which hides faults
    parameters = list(net.parameters())
    if len(parameters) > 1:
        frozen = draw(st.integers(-1, len(parameters) - 1))
        if frozen >= 0:
            parameters[frozen].requires_grad_(False)
    return Case(net, tuple(double(x) for x in inputs))
