"""Cases that a random draw may miss, each in every way."""

import pytest
import torch
from torch import nn

from tests.dp.layers.cases import Ragged
from tests.dp.layers.oracle import (
    Case,
    engine_gradients,
    loop_gradients,
    observe,
    random_slopes,
    squared_norms,
    weighted_sums,
)
from tests.dp.layers.sequence_cases import Attention

EXACT = {"rtol": 1e-10, "atol": 1e-11}
OPTIONS = {"need_weights": False, "pads": False}


def sequences():
    return nn.Linear(3, 2), (torch.randn(2, 4, 3),)


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


CASES = [sequences, repeated_ids, bags_of_other_lengths, keys_of_another_width]


@pytest.mark.parametrize("make", CASES, ids=lambda make: make.__name__)
def test_every_way_is_that_of_one_backward_a_sample(make):
    torch.manual_seed(0)
    net, inputs = make()
    for parameter in net.parameters():
        nn.init.normal_(parameter)
    inputs = [x.double() if x.is_floating_point() else x for x in inputs]
    case = Case(net.double(), tuple(inputs))
    slopes = random_slopes(case)
    gradients = loop_gradients(case, slopes)
    weights = torch.tensor([0.5, 2.0], dtype=torch.float64)
    sums = {
        name: 1 + torch.einsum("b,b...->...", weights, gradient)
        for name, gradient in gradients.items()
    }
    for mode in ("ghost", "instantiate"):
        samples, gradient_engine = observe(case, slopes, mode)
        norms = sum(samples.squared_norms().values())
        torch.testing.assert_close(norms, squared_norms(gradients, 2), **EXACT)
        actual = weighted_sums(samples, gradient_engine, weights)
        torch.testing.assert_close(actual, sums, **EXACT)
    torch.testing.assert_close(engine_gradients(samples, net), gradients, **EXACT)
