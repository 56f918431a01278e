"""Recurrent layers and attention with all their options, drawn by hypothesis."""

import torch
from hypothesis import strategies as st
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

SMALL = st.integers(1, 3)


class Recurrence(nn.Module):
    """Calls a recurrent layer on [B, T, I], maybe packed, maybe with initial states."""

    def __init__(self, layer, packs, ordered=False):
        super().__init__()
        self.layer, self.packs = layer, packs

    def forward(self, x, lengths, *states):
        if states:
            states = [state.transpose(0, 1) for state in states]
            hx = tuple(states) if len(states) == 2 else states[0]
        else:
            hx = None
        first = self.layer.batch_first
        if not self.packs:
            outputs, last = self.layer(x if first else x.transpose(0, 1), hx)
            outputs = outputs if first else outputs.transpose(0, 1)
        else:
            x = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
            outputs, last = self.layer(x, hx)
            outputs, _ = pad_packed_sequence(outputs, True, total_length=4)
        last = last if isinstance(last, tuple) else (last,)
        return outputs, *(each.transpose(0, 1) for each in last)


def recurrent(kind):
    @st.composite
    def case(draw):
        hidden, layers = draw(SMALL), draw(st.integers(1, 2))
        two_ways = draw(st.booleans())
        options = {}
        if kind is nn.LSTM and hidden > 1:
            options["proj_size"] = draw(st.integers(0, hidden - 1))
        if kind is nn.RNN:
            options["nonlinearity"] = draw(st.sampled_from(["tanh", "relu"]))
        layer = kind(
            draw(SMALL),
            hidden,
            layers,
            bias=draw(st.booleans()),
            batch_first=draw(st.booleans()),
            bidirectional=two_ways,
            **options,
        )
        packs = draw(st.booleans())
        batch = draw(st.integers(1, 3))
        x = torch.randn(batch, 4, layer.input_size)
        lengths = torch.randint(1, 5, (batch,))
        if not draw(st.booleans()):
            return Recurrence(layer, packs), (x, lengths)
        runs = layers * (1 + two_ways)
        states = [torch.randn(batch, runs, layer.proj_size or hidden)]
        if kind is nn.LSTM:
            states.append(torch.randn(batch, runs, hidden))
        return Recurrence(layer, packs), (x, lengths, *states)

    return case()


class Attention(nn.Module):
    """Calls attention on [B, T, E] with the masks that it is given."""

    def __init__(self, layer, sort, options):
        super().__init__()
        self.layer, self.sort, self.options = layer, sort, options

    def forward(self, x, memory, values, padding):
        if self.sort == "self":
            memory = values = x
        elif self.sort == "cross":
            values = memory
        options = dict(self.options)
        if options.pop("pads"):
            options["key_padding_mask"] = padding[:, : memory.shape[1]]
        inputs = x, memory, values
        if not self.layer.batch_first:
            inputs = [each.transpose(0, 1) for each in inputs]
        output, weights = self.layer(*inputs, **options)
        output = output if self.layer.batch_first else output.transpose(0, 1)
        return output if weights is None else (output, weights)


@st.composite
def attention(draw):
    heads, width = draw(SMALL), draw(st.integers(1, 2))
    embed = heads * width
    sort = draw(st.sampled_from(["self", "cross", "three"]))
    kdim = vdim = None
    if sort == "three" and draw(st.booleans()):
        kdim, vdim = draw(SMALL), draw(SMALL)
    layer = nn.MultiheadAttention(
        embed,
        heads,
        bias=draw(st.booleans()),
        add_bias_kv=draw(st.booleans()),
        add_zero_attn=draw(st.booleans()),
        kdim=kdim,
        vdim=vdim,
        batch_first=draw(st.booleans()),
    )
    batch, steps = draw(st.integers(1, 3)), draw(SMALL)
    length = steps if sort == "self" else draw(SMALL)
    mask = draw(st.sampled_from([None, "scores", "causal"]))
    options = {
        "need_weights": draw(st.booleans()),
        "average_attn_weights": draw(st.booleans()),
        "pads": draw(st.booleans()),
    }
    if mask == "scores":
        options["attn_mask"] = torch.randn(steps, length, dtype=torch.float64)
    elif mask == "causal":
        above = torch.ones(steps, length, dtype=torch.bool).triu(1)
        options["attn_mask"] = above
    padding = torch.rand(batch, 3) < 0.3
    padding[:, 0] = False  # something is left to attend to
    inputs = (
        torch.randn(batch, steps, embed),
        torch.randn(batch, length, kdim or embed),
        torch.randn(batch, length, vdim or embed),
        padding,
    )
    return Attention(layer, sort, options), inputs
