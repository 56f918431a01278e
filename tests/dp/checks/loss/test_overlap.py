"""Dice's loss of each sample is read from its graph, and one of the batch is not."""

import math

import pytest
import torch
from torch import nn

from tests.dp.loss_cases import FEATURES, trained
from tests.dp.nets import UNREAD

SIDE = 3


def pictures():
    """A score for each pixel, [B, 1, SIDE, SIDE]."""
    return nn.Sequential(
        nn.Linear(FEATURES, SIDE * SIDE), nn.Unflatten(1, (1, SIDE, SIDE))
    )


def masks(size):
    return torch.randint(0, 2, (size, 1, SIDE, SIDE)).float()


def weights(size):
    return torch.rand(size, 1, SIDE, SIDE)


def share(p, y, dims, smooth=1.0):
    overlap, both = (p * y).sum(dims), p.sum(dims) + y.sum(dims)
    return (2 * overlap + smooth) / (both + smooth)


def of_pixels(out, y):
    return 1 - share(out.sigmoid(), y, (1, 2, 3))


def of_flat_pixels(out, y):
    return 1 - share(out.sigmoid().flatten(1), y.flatten(1), 1, smooth=0.5)


def of_one_sum(out, y):
    p = out.sigmoid().view(len(y), -1)
    y = y.view(len(y), -1)
    return 1 - (1 + 2.0 * (y * p).sum(-1)) / (1 + (p + y).sum(-1))


def of_squares(out, y):
    p = out.sigmoid()
    both = (p**2).sum((1, 2, 3)) + (y**2).sum((1, 2, 3))
    return 1 - (2 * (p * y).sum((1, 2, 3)) + 1) / (both + 1)


def of_products(out, y):
    p = out.sigmoid()
    both = (p * p).sum((2, 3)) + (y * y).sum((2, 3)) + 1e-3
    return (1 - 2 * (p * y).sum((2, 3)) / both).squeeze(1)


def of_classes(out, y):
    p = out.flatten(1).softmax(1)
    return 1 - share(p, y.flatten(1), 1)


def with_cross_entropy(out, y):
    losses = nn.functional.binary_cross_entropy_with_logits(out, y, reduction="none")
    return of_pixels(out, y) + 0.5 * losses.mean((1, 2, 3))


BY_SAMPLE = [of_pixels, of_flat_pixels, of_one_sum, of_squares, of_products]
BY_SAMPLE += [of_classes, with_cross_entropy]


def over_the_batch(out, y):
    return 1 - share(out.sigmoid(), y, (0, 1, 2, 3))


def over_the_samples(out, y):
    return (1 - share(out.sigmoid(), y, 0)).mean()


def of_all_sums(out, y):
    p = out.sigmoid()
    overlap = (p * y).sum((1, 2, 3))
    return (1 - (2 * overlap + 1) / (p.sum() + y.sum() + 1)).mean()


def of_all_chances(out, y):
    p = out.sigmoid()
    overlap, own = (p * y).sum((1, 2, 3)), y.sum((1, 2, 3))
    return (1 - (2 * overlap + 1) / (p.sum() + own + 1)).mean()


def of_all_masks(out, y):
    p = out.sigmoid()
    overlap, own = (p * y).sum((1, 2, 3)), p.sum((1, 2, 3))
    return (1 - (2 * overlap + 1) / (own + y.sum() + 1)).mean()


def smoothed_by_the_batch(out, y):
    return (1 - share(out.sigmoid(), y, (1, 2, 3), smooth=y.sum() / 10)).mean()


def smoothed_by_a_number_of_the_batch(out, y):
    smooth = float(out.detach().sigmoid().mean())
    return (1 - share(out.sigmoid(), y, (1, 2, 3), smooth=smooth)).mean()


def scaled_by_the_batch(out, y):
    p = out.sigmoid()
    overlap, both = (p * y).sum((1, 2, 3)), p.sum((1, 2, 3)) + y.sum((1, 2, 3))
    return (1 - (y.mean() * overlap + 1) / (both + 1)).mean()


def of_another_mask(out, y):
    p = out.sigmoid()
    other = (p.detach() > p.detach().median()).float()
    both = p.sum((1, 2, 3)) + other.sum((1, 2, 3))
    return (1 - (2 * (p * y).sum((1, 2, 3)) + 1) / (both + 1)).mean()


def of_rolled_sums(out, y):
    p = out.sigmoid()
    both = p.roll(1, 0).sum((1, 2, 3)) + y.sum((1, 2, 3))
    return (1 - (2 * (p * y).sum((1, 2, 3)) + 1) / (both + 1)).mean()


OF_BATCH = [over_the_batch, over_the_samples, of_all_sums, of_all_chances]
OF_BATCH += [of_all_masks, smoothed_by_the_batch, smoothed_by_a_number_of_the_batch]
OF_BATCH += [scaled_by_the_batch, of_another_mask, of_rolled_sums]


@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("losses", BY_SAMPLE)
def test_dice_of_each_sample_is_read(losses, reduction):
    done = trained(
        pictures,
        masks,
        lambda out, y: getattr(losses(out, y), reduction)(),
        loss_reduction=reduction,
    )
    assert 0 < done.get_epsilon() < math.inf
    assert done.receipt()["loss"] == "checked by its graph at every backward"


@UNREAD
@pytest.mark.parametrize("loss", OF_BATCH)
def test_dice_that_mixes_samples_is_not_read(loss):
    done = trained(pictures, masks, loss, steps=5)
    assert done._state.ledger.losses.rejection


@UNREAD
def test_a_factor_that_is_no_mask_may_be_a_weight():
    done = trained(pictures, weights, lambda out, y: of_pixels(out, y).mean())
    assert "multiplied or divided by a tensor" in done._state.ledger.losses.rejection
