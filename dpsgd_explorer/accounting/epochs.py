"""Epochs as numbers of steps."""

from __future__ import annotations

import math
from fractions import Fraction

from dpsgd_explorer.accounting.core import validation
from dpsgd_explorer.accounting.core.validation import MAX_STEPS
from dpsgd_explorer.accounting.sampling_schemes import FIXED_SLOTS, RANDOM_ALLOCATION


def slots_of(sample_size: int, expected_batch_size: int, sampling: str) -> int | None:
    """Returns ceil(N / batch), the slots of an epoch; None for Poisson sampling."""
    if sampling not in (RANDOM_ALLOCATION, FIXED_SLOTS):
        return None
    return -(-sample_size // expected_batch_size)


def steps_of(epochs: float, sample_size: int, expected_batch_size: int) -> int:
    """Returns ceil(epochs N / batch), computed from the decimal digits of ``epochs``.

    1.1 epochs of 50 batches are 55 steps; binary floats would round up to 56.
    """
    number = validation.finite("epochs", epochs)
    if number <= 0:
        validation.refuse("epochs", "greater than 0", epochs)
    steps = math.ceil(Fraction(repr(number)) * sample_size / expected_batch_size)
    if steps > MAX_STEPS:
        validation.refuse("epochs", f"at most {MAX_STEPS} steps long", epochs)
    return steps
