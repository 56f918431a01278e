"""What is proven about ε of the lottery's run under each sampling scheme.

The neighbouring data sets differ in one record, whose gradient counts as 0 in one of
them.  For Poisson sampling and random allocation, this is one record added or removed.
For batches of fixed size and for shuffled batches, the record stays in the batch.

| scheme | ε |
|---|---|
| Poisson sampling | exact |
| random allocation | exact |
| fixed size | at least Poisson's ε, at most the bound for one replaced record |
| shuffled | ``shuffled_interval`` |

If all other gradients are 0, a step on a batch of fixed size has the outputs of a
Poisson step: hence the lower bound.  A record whose gradient counts as 0 is a case of a
replaced record: hence the upper bound.  The same argument gives the shuffled batches
their lower bound for a replaced record.  Their upper bound is one Gaussian release per
epoch on a sensitivity of 2 C.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from dpsgd_explorer import accounting
from dpsgd_explorer.accounting.core.neighboring_relation import REPLACE_ONE
from dpsgd_explorer.web.questions.rounding import limit, proven
from dpsgd_explorer.web.recorded.files import recording

RECORDS = 24
BATCH_SIZE = 6
STEPS_PER_EPOCH = RECORDS // BATCH_SIZE
EPOCHS = 6
NOISE_MULTIPLIER = 3.0
DELTA = 1e-5
RUN: dict[str, Any] = {"noise_multiplier": NOISE_MULTIPLIER, "delta": DELTA}
#: Settings of the run, as in the recording of random allocation.
SETTINGS: dict[str, Any] = {"slots": STEPS_PER_EPOCH, **RUN}


@dataclass(frozen=True)
class Proof:
    """Bounds on ε; both are equal if ε is exact.

    Attributes:
        least: Lower bound.
        most: Upper bound.
        is_exact: If True, ``most`` is ε up to the accuracy of the exact accountant.
    """

    least: float
    most: float
    is_exact: bool = False

    @property
    def short(self) -> str:
        """The ε or both bounds as a formula."""
        if self.is_exact:
            return f"ε = {limit(self.most)}"
        return f"{proven(self.least)} ≤ ε ≤ {limit(self.most)}"

    @property
    def cell(self) -> str:
        """The ε or both bounds as text of a table."""
        if self.is_exact:
            return f"{limit(self.most)} (exact)"
        return f"{proven(self.least)} to {limit(self.most)} (bounds)"


def exact(epsilon: float) -> Proof:
    """Returns the proof of an exact ε."""
    return Proof(epsilon, epsilon, is_exact=True)


def recorded_allocation() -> list[float]:
    """Returns ε of random allocation after each epoch, as ``record.py`` stored it."""
    stored = recording("recorded", Path(__file__).parent)
    if stored["settings"] != SETTINGS:
        raise ValueError(
            f"the recording must have the settings {SETTINGS}, got "
            f"{stored['settings']}. Run record.py again."
        )
    epsilons: list[float] = stored["epsilons"]
    return epsilons


@cache
def zeroed(epoch: int) -> dict[str, Proof]:
    """Returns the bounds after an epoch, by scheme, if a gradient counts as 0."""
    poisson = accounting.epsilon(
        sample_rate=1 / STEPS_PER_EPOCH, steps=epoch * STEPS_PER_EPOCH, **RUN
    )
    shuffled = accounting.shuffled_interval(slots=STEPS_PER_EPOCH, epochs=epoch, **RUN)
    return {
        "poisson": exact(poisson),
        "allocation": exact(recorded_allocation()[epoch - 1]),
        "fixed": Proof(poisson, replaced(epoch)["fixed"].most),
        "shuffled": Proof(shuffled.lower or 0.0, float(shuffled)),
    }


@cache
def replaced(epoch: int) -> dict[str, Proof]:
    """Returns the bounds after an epoch, by scheme, for one replaced record.

    No bound is proven for random allocation.
    """
    rate, steps = 1 / STEPS_PER_EPOCH, epoch * STEPS_PER_EPOCH
    poisson = accounting.epsilon(
        sample_rate=rate, steps=steps, neighboring_relation=REPLACE_ONE, **RUN
    )
    fixed = accounting.fixed_size_interval(sample_rate=rate, steps=steps, **RUN)
    known_order = accounting.gaussian_epsilon(
        delta=DELTA, noise_multiplier=NOISE_MULTIPLIER / 2, steps=epoch
    )
    shuffled = accounting.shuffled_interval(slots=STEPS_PER_EPOCH, epochs=epoch, **RUN)
    return {
        "poisson": exact(poisson),
        "fixed": Proof(fixed.lower or 0.0, float(fixed)),
        "shuffled": Proof(shuffled.lower or 0.0, known_order),
    }
