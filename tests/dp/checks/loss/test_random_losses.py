"""Whatever loss is accepted, no record's gradient depends on another record."""

import random

import pytest
import torch

from dpsgd_explorer.dp.checks.loss.graph import read
from dpsgd_explorer.errors import MixedLossError
from tests.dp.nets import attached
from tests.dp.random_losses import UNFIT, Rows, random_loss, random_sizes

EACH = 50
ROUNDS, QUICK_ROUNDS = 6, 2


def accepted(seed):
    """Return a random loss, outputs for it and its operations; None if refused."""
    draw = random.Random(seed)
    torch.manual_seed(seed)
    records, tokens, classes = random_sizes(draw)
    reduction = draw.choice(["mean", "mean", "sum"])
    engine, _ = attached(Rows(tokens, classes), loss_reduction=reduction)
    outputs = engine.module(torch.randn(records, 3))
    loss, words = random_loss(draw, outputs)
    try:
        value = loss(outputs)
        reading, _ = read([(value.grad_fn, value.output_nr)])
    except (*UNFIT, MixedLossError):
        return None
    finally:
        engine.detach()
    return None if reading.rejection else (loss, outputs.detach(), words)


def gradient(loss, outputs):
    outputs = outputs.clone().requires_grad_()
    return torch.autograd.grad(loss(outputs), outputs)[0]


def mixes(loss, outputs):
    """Whether some record's gradient changes as all the others' outputs do."""
    whole = gradient(loss, outputs)
    for record, own in enumerate(whole):
        others = torch.randn_like(outputs)
        others[record] = outputs[record]
        moved = gradient(loss, others)[record]
        if not torch.allclose(own, moved, rtol=1e-4, atol=1e-6, equal_nan=True):
            return True
    return False


@pytest.mark.filterwarnings("ignore::UserWarning")  # torch's, of odd shapes
@pytest.mark.parametrize(
    "start",
    [
        *range(0, EACH * QUICK_ROUNDS, EACH),
        *(
            pytest.param(start, marks=pytest.mark.long("every combination"))
            for start in range(EACH * QUICK_ROUNDS, EACH * ROUNDS, EACH)
        ),
    ],
)
def test_an_accepted_loss_keeps_the_records_apart(start):
    found = [made for seed in range(start, start + EACH) if (made := accepted(seed))]
    assert len(found) > EACH / 10
    assert [words for *made, words in found if mixes(*made)] == []
