"""ε of random allocation: in each epoch, each record draws one of t slots afresh.

A step uses the records of one slot, so that each record is used once per epoch, and
batch sizes are Binomial(N, 1/t).  The bounds on the curve of one epoch
(``exact.random_allocation``) are composed on a grid of losses.  The grids are refined
until the bounds on ε meet.

Where no grid is large enough, the upper bound is that of known slots: one Gaussian step
per epoch.
"""

from __future__ import annotations

import math

from dpsgd_explorer.accounting import calibration
from dpsgd_explorer.accounting.core import validation
from dpsgd_explorer.accounting.core.intervals import Interval
from dpsgd_explorer.accounting.core.neighboring_relation import ADD_OR_REMOVE_ONE
from dpsgd_explorer.accounting.core.phase import MAX_SLOTS, AllocationPhase
from dpsgd_explorer.accounting.core.validation import MAX_STEPS
from dpsgd_explorer.accounting.queries import delta_interval, epsilon_interval
from dpsgd_explorer.accounting.target import Target

#: Largest number of epochs.
MAX_EPOCHS = 100_000


def random_allocation_epsilon(
    *,
    noise_multiplier: float,
    slots: int,
    epochs: int,
    delta: float,
    fixed_slots: bool = False,
) -> float:
    """Returns the epsilon of random allocation for one record added or removed.

    Each record draws one of ``slots`` steps in each epoch, afresh and independently:

    >>> run = {"noise_multiplier": 1.1, "slots": 234, "epochs": 1}
    >>> round(random_allocation_epsilon(**run, delta=1e-5), 4)
    0.2717

    Poisson sampling at the same rate has a larger epsilon here, 0.307.

    With fixed slots (balls in bins), a record draws once and keeps its slot in all
    epochs.  The noise of all steps is independent.  So the mean of the E outputs of
    each slot is a sufficient statistic, and the run is one epoch with the noise
    multiplier σ/√E:

    >>> run |= {"epochs": 4, "noise_multiplier": 2.2}
    >>> round(random_allocation_epsilon(**run, delta=1e-5, fixed_slots=True), 4)
    0.2717

    Args:
        noise_multiplier: Noise std over the clipping bound; 0 gives infinity.
        slots: Steps of an epoch t, at least 1.
        epochs: At least 0.
        delta: In (0, 1).
        fixed_slots: If True, a record has the same slot in all epochs.

    Raises:
        AccountingError: an argument is outside its domain.

    Source: Feldman and Shenfeld (2025), arXiv:2502.08202.
    """
    if not isinstance(fixed_slots, bool):
        validation.refuse("fixed_slots", "True or False", fixed_slots)
    run = _whole_epochs(noise_multiplier, slots, epochs, fixed_slots=fixed_slots)
    return float(epsilon_interval([run], delta))


def random_allocation_delta(
    *, noise_multiplier: float, slots: int, epochs: int, epsilon: float
) -> float:
    """Returns the delta of random allocation at epsilon.

    >>> at_one = random_allocation_delta(
    ...     noise_multiplier=1.1, slots=234, epochs=10, epsilon=1.0
    ... )
    >>> f"{at_one:.3g}"
    '1.3e-06'

    Args:
        noise_multiplier: Noise std over the clipping bound; 0 gives 1.
        slots: Steps of an epoch t, at least 1.
        epochs: At least 0.
        epsilon: At least 0.

    Raises:
        AccountingError: an argument is outside its domain.

    Source: as ``random_allocation_epsilon``.
    """
    run = _whole_epochs(noise_multiplier, slots, epochs)
    return delta_interval([run], epsilon).value


def random_allocation_noise_multiplier(
    *, target_epsilon: float, slots: int, epochs: int, delta: float
) -> float:
    """Returns the least noise multiplier with which all epochs spend the target.

    >>> sigma = random_allocation_noise_multiplier(
    ...     target_epsilon=2.0, slots=12, epochs=30, delta=1e-5
    ... )
    >>> round(sigma, 2)
    3.23

    Args:
        target_epsilon: Greater than 0.
        slots: Steps of an epoch t, at least 1.
        epochs: At least 1.
        delta: In (0, 1).

    Returns:
        A noise multiplier whose ``random_allocation_epsilon`` is at most the target.
        With many slots and a large target, no grid is fine enough for less noise; ε is
        then below the target.

    Raises:
        AccountingError: an argument is outside its domain, or no noise reaches the
            target.

    Source: as ``random_allocation_epsilon``.
    """
    target = Target.of(target_epsilon, delta, "exact", ADD_OR_REMOVE_ONE)
    validation.whole("epochs", epochs, 1, MAX_EPOCHS)
    run = _whole_epochs(1.0, slots, epochs)
    return calibration.allocated_noise(target, run.slots, run.steps)


def random_allocation_epochs(
    *, target_epsilon: float, noise_multiplier: float, slots: int, delta: float
) -> int:
    """Returns a number of epochs that spends at most the target, nearly the largest.

    >>> random_allocation_epochs(
    ...     target_epsilon=2.0, noise_multiplier=2.0, slots=12, delta=1e-5
    ... )
    10

    Args:
        target_epsilon: Greater than 0.
        noise_multiplier: Noise std over the clipping bound; 0 allows no epoch.
        slots: Steps of an epoch t, at least 1.
        delta: In (0, 1).

    Returns:
        From 0 to 100,000.

    Raises:
        AccountingError: an argument is outside its domain.

    Source: as ``random_allocation_epsilon``.
    """
    target = Target.of(target_epsilon, delta, "exact", ADD_OR_REMOVE_ONE)
    one = _whole_epochs(noise_multiplier, slots, 1)
    most = min(MAX_EPOCHS, MAX_STEPS // one.slots)
    run = _whole_epochs(noise_multiplier, slots, most)
    return calibration.allocated_epochs(target, run)


def random_allocation_interval(
    *, noise_multiplier: float, slots: int, steps: int, delta: float
) -> Interval:
    """Returns the interval of ε after a number of steps, within an epoch too.

    >>> spent = random_allocation_interval(
    ...     noise_multiplier=2.0, slots=12, steps=360, delta=1e-5
    ... )
    >>> spent.status, round(float(spent), 3)
    ('exact', 3.585)

    Args:
        noise_multiplier: Noise std over the clipping bound; 0 gives infinity.
        slots: Steps of an epoch t, at least 1.
        steps: Completed steps, at least 0.
        delta: In (0, 1).

    Returns:
        Both bounds.  Their status is "bound" where they do not meet, for little noise
        with many slots.

    Raises:
        AccountingError: an argument is outside its domain.

    Source: as ``random_allocation_epsilon``.
    """
    run = AllocationPhase(slots=slots, noise_multiplier=noise_multiplier, steps=steps)
    return epsilon_interval([run], delta)


def _whole_epochs(
    noise_multiplier: float, slots: int, epochs: int, *, fixed_slots: bool = False
) -> AllocationPhase:
    """Returns the steps of whole epochs."""
    number = validation.whole("epochs", epochs, 0, MAX_EPOCHS)
    length = validation.whole("slots", slots, 1, MAX_SLOTS)
    if number * length > MAX_STEPS:
        rule = f"at most {MAX_STEPS // length} for {length} slots"
        validation.refuse("epochs", rule, epochs)
    noise = validation.noise_multiplier(noise_multiplier)
    if fixed_slots and number > 1:
        noise = math.nextafter(noise / math.sqrt(number), 0.0)
        number = 1
    return AllocationPhase(slots=length, noise_multiplier=noise, steps=number * length)
