"""Recurrent nets and transformers as people write them, through the whole engine."""

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from dpsgd_explorer.dp.config import ENGINES
from tests.dp.engines.test_engines_agree import EXACT, loop_sum
from tests.dp.nets import attached, clipped_sum


class Packed(nn.Module):
    """Embeds, packs by length, and reads the last state of both directions."""

    def __init__(self, kind=nn.LSTM):
        super().__init__()
        self.tokens = nn.Embedding(7, 4, padding_idx=0)
        self.cell = kind(4, 3, 2, batch_first=True, bidirectional=True)
        self.head = nn.Linear(12, 3)

    def forward(self, ids, lengths):
        packed = pack_padded_sequence(
            self.tokens(ids), lengths, batch_first=True, enforce_sorted=False
        )
        outputs, last = self.cell(packed)
        hidden = last[0] if isinstance(last, tuple) else last
        total = pad_packed_sequence(outputs, batch_first=True)[0].sum(1)
        return self.head(torch.cat([total, hidden[-1], hidden[-2]], 1))


class Pair(nn.Module):
    """Takes ids and lengths as one tensor, for loops that have one input."""

    def __init__(self, kind):
        super().__init__()
        self.net = Packed(kind)

    def forward(self, x):
        return self.net(x[:, 1:], x[:, 0].clamp(1, 4))


class Encoder(nn.Module):
    """nn.TransformerEncoder with padding, either way round, before or after norms."""

    def __init__(self, batch_first, norm_first):
        super().__init__()
        self.tokens, self.batch_first = nn.Embedding(7, 4), batch_first
        block = nn.TransformerEncoderLayer(
            4, 2, 8, 0.0, batch_first=batch_first, norm_first=norm_first
        )
        self.body = nn.TransformerEncoder(block, 2, enable_nested_tensor=False)
        self.head = nn.Linear(4, 3)

    def forward(self, ids):
        x = self.tokens(ids)
        x = x if self.batch_first else x.transpose(0, 1)
        padding = torch.zeros_like(x[..., 0]) if self.batch_first else None
        if padding is not None:
            padding = ids == 0
            padding[:, 0] = False
        x = self.body(x, src_key_padding_mask=padding)
        return self.head(x.mean(1 if self.batch_first else 0))


class Decoder(nn.Module):
    """nn.Transformer whole: attention to itself and to another sequence, causal."""

    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(7, 4)
        self.body = nn.Transformer(4, 2, 1, 1, 8, 0.0, batch_first=True)
        self.head = nn.Linear(4, 3)

    def forward(self, ids):
        x = self.tokens(ids)
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1]).to(x)
        return self.head(self.body(x, x.flip(1), tgt_mask=mask).mean(1))


NETS = {
    "LSTM": lambda: Pair(nn.LSTM),
    "GRU": lambda: Pair(nn.GRU),
    "RNN": lambda: Pair(nn.RNN),
    "encoder": lambda: Encoder(True, False),
    "encoder, steps first": lambda: Encoder(False, True),
    "transformer": Decoder,
}


def data(size):
    torch.manual_seed(1)
    ids = torch.randint(0, 7, (size, 5))
    ids[:, 0] = ids[:, 0].clamp(1, 4)
    return ids, torch.randint(0, 3, (size,))


@pytest.mark.filterwarnings("ignore:enable_nested_tensor is True")
@pytest.mark.parametrize(
    ("mode", "training"), [("ghost", True), ("instantiate", True), ("MixOpt", False)]
)
@pytest.mark.parametrize("make", NETS.values(), ids=NETS)
def test_they_are_exact_as_they_are(make, mode, training):
    torch.manual_seed(0)
    net = make().double()
    for part in net.children():
        part.train(training)  # in evaluation torch has ways of its own
    names = list(net.state_dict())
    x, y = data(6)
    actual = clipped_sum(net, x, y, max_grad_norm=0.2, clipping_mode=mode)
    expected = loop_sum(net.train(), x, y, "automatic", 0.2)
    torch.testing.assert_close(actual, expected, **EXACT)
    assert list(net.state_dict()) == names


def test_lengths_beside_the_sequences_pass_the_safety_check():
    net = Packed()
    attached(net)
    outputs = net(torch.randint(1, 7, (5, 4)), torch.tensor([4, 2, 3, 1, 4]))
    assert outputs.shape == (5, 3)
    outputs.sum().backward()


@pytest.mark.parametrize("engine", ENGINES)
def test_a_batch_without_positions_is_trained(engine):
    net = nn.Linear(6, 4)
    private, optimizer = attached(net, engine=engine, loss_reduction="sum")
    net(torch.zeros(5, 0, 6)).sum().backward()
    optimizer.step()
    assert private.diagnostics.norms.tolist() == pytest.approx([0.0] * 5)
    assert not net.weight.grad.any()
