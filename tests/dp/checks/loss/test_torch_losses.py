"""Every loss of torch is read as it is, and the usual ones that people write."""

import math
from functools import partial
from types import MappingProxyType
from typing import NamedTuple

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.modules import loss as torch_losses

from tests.dp.loss_cases import (
    CLASSES,
    FEATURES,
    Tokens,
    classes,
    distributions,
    numbers,
    scores,
    token_classes,
    trained,
)
from tests.dp.nets import UNREAD

STEPS_OF_CTC = 7
LABELS = 3


class Parts(nn.Module):
    """Several vectors per record; the last one positive if it is a variance."""

    def __init__(self, count, *, positive=False):
        super().__init__()
        self.layer = nn.Linear(FEATURES, count * CLASSES)
        self.count, self.positive = count, positive

    def forward(self, x):
        *parts, last = self.layer(x).chunk(self.count, 1)
        return *parts, F.softplus(last) + 0.1 if self.positive else last


class Sequences(nn.Module):
    """Log-probabilities of each step's class, [B, T, V]."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(FEATURES, CLASSES)

    def forward(self, x):
        return self.layer(x[:, None] * torch.arange(1.0, 1 + STEPS_OF_CTC)[:, None])


def signs(size):
    return 2.0 * torch.randint(0, 2, (size, CLASSES)) - 1


def sign(size):
    return 2.0 * torch.randint(0, 2, (size,)) - 1


def binary(size):
    return torch.randint(0, 2, (size, CLASSES)).float()


def counts(size):
    return torch.poisson(torch.full((size, CLASSES), 2.0))


def orders(size):
    return torch.rand(size, CLASSES).argsort(1)


def labels(size):
    return torch.randint(1, CLASSES, (size, LABELS))


def of_sequences(out, y):
    """Return the arguments of the loss of label sequences, of unlike lengths."""
    lengths = 1 + (y[:, 0] - 1) % LABELS
    steps = torch.full((len(y),), STEPS_OF_CTC)
    return out.log_softmax(2).transpose(0, 1), y, steps, lengths


class Case(NamedTuple):
    """A loss of torch on the outputs of a module.

    Attributes:
        make: Returns the module.
        draw: Returns targets.
        arguments: Returns the loss's arguments, of outputs and targets.
        options: Of the loss.
    """

    make: object
    draw: object
    arguments: object = lambda out, y: (out, y)
    options: object = MappingProxyType({})


TORCH = {
    "L1Loss": [Case(scores, numbers)],
    "NLLLoss": [Case(scores, classes, lambda out, y: (out.log_softmax(1), y))],
    "NLLLoss2d": [
        Case(
            lambda: nn.Sequential(Tokens(), nn.Unflatten(2, (CLASSES, 1))),
            lambda size: token_classes(size)[..., None],
            lambda out, y: (out.transpose(1, 2).log_softmax(1), y),
        )
    ],
    "PoissonNLLLoss": [
        Case(scores, counts),
        Case(scores, counts, options={"full": True}),
        Case(
            scores,
            counts,
            lambda out, y: (F.softplus(out), y),
            {"log_input": False},
        ),
    ],
    "GaussianNLLLoss": [
        Case(partial(Parts, 2, positive=True), numbers, lambda o, y: (o[0], y, o[1])),
        Case(scores, numbers, lambda out, y: (out, y, torch.full_like(out, 0.5))),
        Case(
            scores,
            numbers,
            lambda out, y: (out, y, torch.full((len(y), 1), 0.5)),
            {"full": True},
        ),
    ],
    "KLDivLoss": [Case(scores, distributions, lambda o, y: (o.log_softmax(1), y))],
    "MSELoss": [Case(scores, numbers)],
    "BCELoss": [Case(scores, binary, lambda out, y: (out.sigmoid(), y))],
    "BCEWithLogitsLoss": [Case(scores, binary)],
    "HingeEmbeddingLoss": [Case(scores, signs)],
    "MultiLabelMarginLoss": [Case(scores, orders)],
    "SmoothL1Loss": [Case(scores, numbers)],
    "HuberLoss": [Case(scores, numbers)],
    "SoftMarginLoss": [Case(scores, signs)],
    "CrossEntropyLoss": [
        Case(scores, classes),
        Case(scores, distributions),
        Case(scores, classes, options={"label_smoothing": 0.1}),
    ],
    "MultiLabelSoftMarginLoss": [Case(scores, binary)],
    "CosineEmbeddingLoss": [
        Case(partial(Parts, 2), sign, lambda out, y: (*out, y)),
        Case(partial(Parts, 2), sign, lambda out, y: (*out, y), {"margin": 0.2}),
    ],
    "MarginRankingLoss": [
        Case(partial(Parts, 2), signs, lambda out, y: (*out, y), {"margin": 0.3})
    ],
    "MultiMarginLoss": [Case(scores, classes)],
    "TripletMarginLoss": [
        Case(partial(Parts, 3), classes, lambda out, y: out),
        Case(partial(Parts, 3), classes, lambda out, y: out, {"swap": True}),
        Case(scores, numbers, lambda out, y: (out, y, 1 - y)),
    ],
    "TripletMarginWithDistanceLoss": [
        Case(partial(Parts, 3), classes, lambda out, y: out)
    ],
    "CTCLoss": [
        Case(Sequences, labels, of_sequences),
        Case(Sequences, labels, of_sequences, {"zero_infinity": True}),
    ],
}
"""Name of the class: uses of it that are read; each a mean or sum over samples."""

REJECTED = {
    "cosine embedding of given vectors": (
        Case(
            scores,
            lambda size: torch.randn(size, CLASSES),
            lambda out, y: (out, y, torch.ones(len(y))),
        ),
        "CosineEmbeddingLoss",
        "multiplied or divided by a tensor",
    ),
    "a loss with a layer of its own, which belongs into the model": (
        Case(
            scores,
            classes,
            options={"in_features": CLASSES, "num_classes": CLASSES},
        ),
        "LinearCrossEntropyLoss",
        "is not known to keep samples independent",
    ),
    "a variance given for each record": (
        Case(scores, numbers, lambda out, y: (out, y, y + 0.1)),
        "GaussianNLLLoss",
        "multiplied or divided by a tensor",
    ),
}
"""Honest losses that are not read: measure them, or vouch for them."""


def loss_of(case, name, reduction):
    """Return the loss of outputs and targets, as torch's own class computes it."""
    if name == "KLDivLoss" and reduction == "mean":
        reduction = "batchmean"
    loss = getattr(torch_losses, name)(reduction=reduction, **case.options)
    return lambda out, y: loss(*case.arguments(out, y))


def test_the_table_has_every_loss_of_torch():
    with_layer = {"LinearCrossEntropyLoss"}
    assert set(TORCH) | with_layer == set(torch_losses.__all__)


@pytest.mark.filterwarnings("ignore:.*NLLLoss2d:FutureWarning")
@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize(
    ("name", "case"),
    [(name, case) for name, cases in TORCH.items() for case in cases],
)
def test_every_loss_of_torch_is_read(name, case, reduction):
    done = trained(
        case.make,
        case.draw,
        loss_of(case, name, reduction),
        loss_reduction=reduction,
    )
    assert 0 < done.get_epsilon() < math.inf
    assert done.receipt()["loss"] == "checked by its graph at every backward"


@UNREAD
@pytest.mark.parametrize("name", REJECTED)
def test_a_loss_that_looks_weighted_is_not_read(name):
    case, kind, reason = REJECTED[name]
    done = trained(case.make, case.draw, loss_of(case, kind, "mean"))
    assert reason in done._state.ledger.losses.rejection


def one_score():
    return nn.Linear(FEATURES, 1)


def one_sign(size):
    return sign(size)[:, None]


#: Name: (module, targets, losses of the samples).
WRITTEN = {
    "cosine similarity": (
        scores,
        numbers,
        lambda out, y: 1 - F.cosine_similarity(out, y),
    ),
    "hinge": (one_score, one_sign, lambda out, y: F.relu(1 - y * out)),
    "squared hinge": (
        one_score,
        one_sign,
        lambda out, y: (1 - out * y).clamp(min=0) ** 2,
    ),
    "logistic": (one_score, one_sign, lambda out, y: F.softplus(-y * out)),
    "pinball": (
        scores,
        numbers,
        lambda out, y: torch.maximum(0.9 * (y - out), -0.1 * (y - out)),
    ),
    "pinball of two parts": (
        scores,
        numbers,
        lambda out, y: 0.9 * F.relu(y - out) + 0.1 * F.relu(out - y),
    ),
    "Charbonnier": (
        scores,
        numbers,
        lambda out, y: torch.sqrt((out - y) ** 2 + 1e-6),
    ),
    "Charbonnier of a large number": (
        scores,
        numbers,
        lambda out, y: torch.sqrt((out - y).pow(2) + 0.25) - 0.5,
    ),
    "log-cosh": (scores, numbers, lambda out, y: torch.log(torch.cosh(out - y))),
    "log-cosh by softplus": (
        scores,
        numbers,
        lambda out, y: (out - y) + F.softplus(-2 * (out - y)) - math.log(2),
    ),
    "a norm": (
        scores,
        numbers,
        lambda out, y: torch.linalg.vector_norm(out - y, dim=1),
    ),
    "an inner product": (
        scores,
        numbers,
        lambda out, y: torch.einsum("bc,bc->b", out, y),
    ),
    "squares by an inner product": (
        scores,
        numbers,
        lambda out, y: torch.einsum("bc,bc->b", out - y, out - y),
    ),
    "squares by a product": (
        scores,
        numbers,
        lambda out, y: (out - y) * (out - y),
    ),
    "binary cross entropy": (
        scores,
        binary,
        lambda out, y: -(y * out.sigmoid().log() + (1 - y) * (1 - out.sigmoid()).log()),
    ),
    "triplets": (
        partial(Parts, 3),
        classes,
        lambda out, y: F.relu(
            F.pairwise_distance(out[0], out[1])
            - F.pairwise_distance(out[0], out[2])
            + 1
        ),
    ),
    "flooding of each sample": (
        scores,
        classes,
        lambda out, y: (F.cross_entropy(out, y, reduction="none") - 0.1).abs() + 0.1,
    ),
    "limited at public numbers": (
        scores,
        numbers,
        lambda out, y: F.hardtanh(F.mse_loss(out, y, reduction="none"), 0.0, 6.0),
    ),
    "a public weight in a sum": (
        scores,
        numbers,
        lambda out, y: torch.add((out - y) ** 2, out.abs(), alpha=0.1),
    ),
    "a norm of a public order": (
        scores,
        numbers,
        lambda out, y: torch.linalg.vector_norm(out - y, 3, dim=1),
    ),
    "class weights by hand": (
        scores,
        numbers,
        lambda out, y: (out - y) ** 2 * torch.arange(1.0, 1 + CLASSES),
    ),
}


@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("name", WRITTEN)
def test_usual_losses_are_read(name, reduction):
    make, draw, losses = WRITTEN[name]
    done = trained(
        make,
        draw,
        lambda out, y: getattr(losses(out, y), reduction)(),
        loss_reduction=reduction,
    )
    assert 0 < done.get_epsilon() < math.inf
    assert done.receipt()["loss"] == "checked by its graph at every backward"


class Losses(nn.Module):
    """Returns the loss of each record, [B]."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(FEATURES, CLASSES)

    def forward(self, x):
        return F.mse_loss(self.layer(x), torch.ones(CLASSES), reduction="none").mean(1)


OF_LOSSES = {
    "weights": lambda losses, y: (losses * (y / y.mean())).mean(),
    "a mask": lambda losses, y: (losses * (y > y.median())).mean(),
    "a threshold": lambda losses, y: F.relu(losses - losses.detach().median()).mean(),
}


@UNREAD
@pytest.mark.filterwarnings("ignore:Using a target size")
@pytest.mark.parametrize("name", OF_LOSSES)
def test_losses_of_a_module_are_no_scores_that_a_factor_may_label(name):
    done = trained(Losses, lambda size: torch.rand(size), OF_LOSSES[name])
    assert done._state.ledger.losses.rejection


@UNREAD
def test_numbers_that_are_added_must_be_those_of_all_batches():
    def shifting(eps):
        values = iter(eps)
        return lambda out, y: torch.sqrt((out - y) ** 2 + next(values)).mean()

    assert trained(scores, numbers, shifting([0.1] * 3)).get_epsilon() > 0
    changed = trained(scores, numbers, shifting([0.1, 0.1, 0.1001]))
    assert "changes from batch to batch" in changed._state.ledger.losses.rejection
