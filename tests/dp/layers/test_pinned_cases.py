"""Cases that a random draw may miss, each in every way."""

import pytest
import torch
from torch import nn

from dpsgd_explorer.dp.backends.lstm import STEPS_PER_BLOCK
from tests.dp.layers.cases import Ragged
from tests.dp.layers.oracle import Case, check_every_way
from tests.dp.layers.sequence_cases import Attention, Recurrence

OPTIONS = {"need_weights": False, "pads": False}


def sequences():
    return nn.Linear(3, 2), (torch.randn(2, 4, 3),)


def images_in_groups():
    layer = nn.Conv2d(
        4, 4, (2, 3), padding=(1, 2), dilation=2, groups=2, padding_mode="circular"
    )
    return layer, (torch.randn(2, 4, 5, 6),)


def many_channels_on_few_positions():
    return nn.Conv2d(2, 128, 3, stride=2, padding=1), (torch.randn(2, 2, 5, 6),)


def many_transposed_channels_on_few_positions():
    return nn.ConvTranspose1d(128, 2, 3, stride=2), (torch.randn(2, 128, 4),)


def repeated_ids():
    return nn.Embedding(3, 2), (torch.tensor([[0, 1, 1, 1], [2, 2, 0, 2]]),)


def bags_of_other_lengths():
    layer = Ragged(nn.EmbeddingBag(3, 2, mode="mean"))
    ids = torch.tensor([[0, 1, 1], [2, 2, 2]])
    return layer, (ids, torch.tensor([3, 2]), torch.ones(2, 3))


def keys_of_another_width():
    layer = nn.MultiheadAttention(4, 2, kdim=3, vdim=2, batch_first=True)
    widths = (4, 3, 2)
    inputs = [torch.randn(2, 3, width).double() for width in widths]
    padding = torch.zeros(2, 3, dtype=torch.bool)
    return Attention(layer, "three", OPTIONS), (*inputs, padding)


def more_steps_than_are_made_together():
    layer = nn.LSTM(2, 3, bidirectional=True, proj_size=2, batch_first=True)
    steps = STEPS_PER_BLOCK + 3
    return Recurrence(layer, False), (torch.randn(2, steps, 2), torch.tensor([1, 1]))


CASES = [
    more_steps_than_are_made_together,
    sequences,
    images_in_groups,
    many_channels_on_few_positions,
    many_transposed_channels_on_few_positions,
    repeated_ids,
    bags_of_other_lengths,
    keys_of_another_width,
]


@pytest.mark.parametrize("make", CASES, ids=lambda make: make.__name__)
def test_every_way_is_that_of_one_backward_a_sample(make):
    torch.manual_seed(0)
    net, inputs = make()
    for parameter in net.parameters():
        nn.init.normal_(parameter)
    inputs = [x.double() if x.is_floating_point() else x for x in inputs]
    check_every_way(Case(net.double(), tuple(inputs)))
