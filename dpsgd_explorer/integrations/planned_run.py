"""A planned private run in a trainer of another library: batches, metrics, receipt."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from dpsgd_explorer import dp
from dpsgd_explorer.accounting.rounding import round_up
from dpsgd_explorer.accounting.sampling_schemes import FIXED_SLOTS, RANDOM_ALLOCATION
from dpsgd_explorer.errors import ConfigError, PrivacyError

LOGGED_DIGITS = 4


def reject_arguments(rejected: Mapping[str, tuple[bool, str]]) -> None:
    """Rejects the arguments of a trainer that are set and that DP-SGD cannot have.

    Args:
        rejected: {argument: (True if it is set, the reason and the remedy)}.

    Raises:
        ConfigError: names the first one.
    """
    for name, (is_set, reason) in rejected.items():
        if is_set:
            raise ConfigError(name, f"{name} must be left out: {reason}.")


def check_privacy(privacy: Mapping[str, Any], parts: str) -> None:
    """Rejects arguments of the engine that a trainer decides, or cannot have.

    Args:
        privacy: Arguments of the engine.
        parts: Why ``physical_batch_size`` is left out, and what bounds a part instead.

    Raises:
        ConfigError: a size, the length or a plan is given; the sampling is
            "random_allocation" or "fixed_slots"; or noise is correlated.
    """
    reason = "it follows from the trainer and its data"
    names = ("batch_size", "sample_size", "steps", "epochs", "plan")
    decided = dict.fromkeys(names, reason)
    decided["physical_batch_size"] = parts
    reject_arguments({n: (privacy.get(n) is not None, r) for n, r in decided.items()})
    sampling = privacy.get("sampling")
    reason = (
        "a trainer's batches are Poisson samples; use dp.make_private(..., "
        f"sampling={sampling!r}) in a training loop"
    )
    is_set = sampling in (RANDOM_ALLOCATION, FIXED_SLOTS)
    reject_arguments({"sampling": (is_set, reason)})
    name = "noise_correlation"
    reason = (
        "a trainer may leave out batches, and correlated noise needs all of them in "
        "order; use dp.make_private(..., noise_correlation=...) in a training loop"
    )
    reject_arguments({name: (privacy.get(name) is not None, reason)})


class EpochBatches:
    """The Poisson batches of a plan, with the same number in each iteration.

    Args:
        loader: The loader of the engine.
        per_epoch: Number of batches in each iteration.

    Attributes:
        dataset: The data set, which a trainer may count.
    """

    def __init__(self, loader: dp.PoissonLoader, per_epoch: int) -> None:
        self.dataset, self._per_epoch = loader.dataset, per_epoch
        self._loader = loader
        self._batches: Iterator[Any] | None = None

    def __len__(self) -> int:
        return self._per_epoch

    def __iter__(self) -> Iterator[Any]:
        if self._batches is None:  # at the first iteration a resume has been loaded
            self._batches = self._loader.all_epochs()
        return itertools.islice(self._batches, self._per_epoch)


def privacy_metrics(
    engine: dp.PrivacyEngine | None, *, plan_is_whole: bool
) -> dict[str, float]:
    """Returns the epsilon of the steps done and of the rest of the plan.

    Args:
        engine: The engine, or None before a training.
        plan_is_whole: If True, no earlier phase is added to the epsilon.

    Returns:
        ``epsilon``, rounded up, and with a whole plan ``epsilon_left``, rounded down;
        nothing before the first step or where epsilon is not known.
    """
    if engine is None or not engine.steps_done or not engine.plan.is_private:
        return {}
    try:
        spent = engine.get_epsilon()
    except PrivacyError:  # the receipt says why
        return {}
    metrics = {"epsilon": float(round_up(spent, LOGGED_DIGITS))}
    if plan_is_whole:
        scale = 10**LOGGED_DIGITS
        left = max(0.0, engine.plan.epsilon() - spent)
        metrics["epsilon_left"] = math.floor(left * scale) / scale
    return metrics


def write_receipt(engine: dp.PrivacyEngine, file: Path) -> None:
    """Writes the receipt of an engine as JSON."""
    receipt = json.dumps(engine.receipt(), indent=1)
    file.write_text(receipt + "\n", encoding="utf-8")
