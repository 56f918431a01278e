"""Layers and inputs to try each rule on, drawn by hypothesis; all float64."""

import torch
from hypothesis import assume
from hypothesis import strategies as st
from torch import nn

BATCH = st.integers(0, 3)
FEATURES = st.integers(1, 5)


@st.composite
def linear(draw):
    d, p = draw(FEATURES), draw(FEATURES)
    between = draw(st.lists(st.integers(1, 4), max_size=3))  # 2-D to 5-D inputs
    layer = nn.Linear(d, p, bias=draw(st.booleans()))
    return layer, torch.randn(draw(BATCH), *between, d)


@st.composite
def conv2d(draw):
    groups = draw(st.sampled_from([1, 1, 2, 3]))
    kernel = draw(st.tuples(st.integers(1, 3), st.integers(1, 3)))
    dilation = draw(st.tuples(st.integers(1, 2), st.integers(1, 2)))
    padding = draw(st.sampled_from([0, 1, 2, (1, 0), "same", "valid"]))
    stride = draw(st.tuples(st.integers(1, 2), st.integers(1, 3)))
    layer = nn.Conv2d(
        groups * draw(st.integers(1, 2)),
        groups * draw(st.integers(1, 2)),
        kernel,
        stride=1 if padding == "same" else stride,
        padding=padding,
        dilation=dilation,
        groups=groups,
        bias=draw(st.booleans()),
        padding_mode=draw(
            st.sampled_from(["zeros", "reflect", "replicate", "circular"])
        ),
    )
    x = torch.randn(
        draw(BATCH),
        layer.in_channels,
        draw(st.integers(5, 8)),
        draw(st.integers(5, 8)),
    )
    return layer, x


@st.composite
def group_norm(draw):
    groups = draw(st.integers(1, 3))
    channels = groups * draw(st.integers(1, 2))
    layer = nn.GroupNorm(groups, channels, affine=True)
    between = draw(st.lists(st.integers(1, 4), max_size=3))
    assume(channels // groups * torch.Size(between).numel() > 1)  # else torch refuses
    return layer, torch.randn(draw(BATCH), channels, *between)


@st.composite
def layer_norm(draw):
    shape = draw(st.lists(st.integers(2, 4), min_size=1, max_size=3))
    between = draw(st.lists(st.integers(1, 3), max_size=2))
    layer = nn.LayerNorm(shape, bias=draw(st.booleans()))
    return layer, torch.randn(draw(BATCH), *between, *shape)


@st.composite
def embedding(draw):
    rows = draw(st.integers(1, 5))  # few, so that ids repeat
    padding = draw(st.sampled_from([None, 0, rows - 1, -1]))
    layer = nn.Embedding(rows, draw(FEATURES), padding_idx=padding)
    between = draw(st.lists(st.integers(1, 4), max_size=2))
    return layer, torch.randint(0, rows, (draw(BATCH), *between))


CASES = {
    nn.Linear: linear(),
    nn.Conv2d: conv2d(),
    nn.GroupNorm: group_norm(),
    nn.LayerNorm: layer_norm(),
    nn.Embedding: embedding(),
}


@st.composite
def rule_case(draw, kind):
    """Draw (layer, activations, backprops): random values, maybe a frozen parameter."""
    torch.manual_seed(draw(st.integers(0, 2**16)))
    layer, x = draw(CASES[kind])
    layer.double()
    x = x.double() if x.is_floating_point() else x
    for parameter in layer.parameters():
        nn.init.normal_(parameter)  # norms start at 1 and 0, which hides faults
    names = [name for name, _ in layer.named_parameters()]
    frozen = draw(st.sampled_from([None, *names])) if len(names) > 1 else None
    if frozen:
        getattr(layer, frozen).requires_grad_(False)
    return layer, x, torch.randn_like(layer(x)).detach()
