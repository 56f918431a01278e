"""ε of random allocation: in each epoch, each record draws one of t slots afresh.

A step uses the records of one slot, so that each record is used once per epoch, and
batch sizes are Binomial(N, 1/t).  The bounds on the curve of one epoch
(``exact.random_allocation``) are composed on a grid of losses.  The grids are refined
until the bounds on ε meet.

Where no grid is large enough, the upper bound is that of known slots: one Gaussian step
per epoch.
"""

from __future__ import annotations

from dpsgd_explorer.accounting.core import validation
from dpsgd_explorer.accounting.core.intervals import Interval
from dpsgd_explorer.accounting.core.phase import MAX_SLOTS, AllocationPhase
from dpsgd_explorer.accounting.queries import epsilon_interval

#: Largest number of epochs.
MAX_EPOCHS = 100_000


def random_allocation_epsilon(
    *, noise_multiplier: float, slots: int, epochs: int, delta: float
) -> float:
    """Returns the epsilon of random allocation for one record added or removed.

    Each record draws one of ``slots`` steps in each epoch, afresh and independently:

    >>> run = {"noise_multiplier": 1.1, "slots": 234, "epochs": 1}
    >>> round(random_allocation_epsilon(**run, delta=1e-5), 4)
    0.2717

    Poisson sampling at the same rate has a larger epsilon here, 0.307.

    Args:
        noise_multiplier: Noise std over the clipping bound; 0 gives infinity.
        slots: Steps of an epoch t, at least 1.
        epochs: At least 0.
        delta: In (0, 1).

    Raises:
        AccountingError: an argument is outside its domain.

    Source: Feldman and Shenfeld (2025), arXiv:2502.08202.
    """
    count = validation.whole("epochs", epochs, 0, MAX_EPOCHS)
    length = validation.whole("slots", slots, 1, MAX_SLOTS)
    return float(
        random_allocation_interval(
            noise_multiplier=noise_multiplier,
            slots=length,
            steps=count * length,
            delta=delta,
        )
    )


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
