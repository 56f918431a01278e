"""Figures of the chapter on accounting: the classic run, and the accountants."""

from __future__ import annotations

import math
from functools import partial

from dpsgd_explorer import accounting
from dpsgd_explorer.accounting import ACCOUNTANTS
from dpsgd_explorer.experiments.accountant_words import ACCURACY
from dpsgd_explorer.experiments.accountant_words import LABELS as ACCOUNTANT_NAMES
from dpsgd_explorer.web.hub.chapters.privacy_accounting.growth import (
    growth,
    growth_picture,
)
from dpsgd_explorer.web.hub.examples.classic_run import (
    ACCOUNTANT,
    BATCH_SIZE,
    DELTA,
    NOISE_MULTIPLIER,
    SAMPLE_SIZE,
    classic_plan,
)
from dpsgd_explorer.web.hub.widgets.accountant_race.widget import said as race_epsilon
from dpsgd_explorer.web.hub.widgets.sampling_lottery.proofs import zeroed
from dpsgd_explorer.web.hub.widgets.sampling_lottery.widget import SHOWN_EPOCHS
from dpsgd_explorer.web.questions.comparison import Comparison
from dpsgd_explorer.web.questions.rounding import limit, nearest, proven, whole

__all__ = [
    "ACCOUNTANT_NAMES",
    "accountants",
    "batch_epsilon",
    "classic_plan",
    "classic_run_by_accountant",
    "counting_factor",
    "epsilon_by_steps",
    "full_batch_by_accountant",
    "growth_picture",
    "lottery",
    "paper_run_by_accountant",
    "race_epsilon",
    "sampling_factor",
    "scaled_delta",
    "step_epsilon_by_rate",
    "steps_by_budget",
]

PAPER_RUN = {  # Abadi and others, 2016
    "sample_rate": 0.01,
    "noise_multiplier": 4.0,
    "steps": 10_000,
}
FULL_BATCH_RUN = {"sample_rate": 1.0, "noise_multiplier": 10.0, "steps": 100}

thumbnail = growth_picture


def lottery() -> dict[str, str]:
    """Returns the epochs of the lottery's picture, and ε after them as text.

    ``shuffled_least`` is a lower bound, all others are upper bounds.
    """
    proofs = zeroed(SHOWN_EPOCHS)
    return {
        "epochs": str(SHOWN_EPOCHS),
        "shuffled_least": proven(proofs["shuffled"].least),
        **{name: limit(proof.most) for name, proof in proofs.items()},
    }


def counted_epsilon(
    sample_rate: float, noise_multiplier: float, steps: int, accountant: str
) -> float:
    """Returns the ε of a run by one accountant, not rounded."""
    return accounting.epsilon(
        sample_rate=sample_rate,
        noise_multiplier=noise_multiplier,
        steps=steps,
        delta=DELTA,
        accountant=accountant,
    )


def sampled_epsilon(sample_rate: float, noise_multiplier: float, steps: int) -> float:
    """Returns the exact ε of a run, not rounded."""
    return counted_epsilon(sample_rate, noise_multiplier, steps, ACCOUNTANT)


def inner_epsilon(sample_rate: float, noise_multiplier: float) -> float:
    """Returns the ε of one Gaussian release for the records of its batch, at δ/q."""
    return accounting.gaussian_epsilon(
        delta=DELTA / sample_rate, noise_multiplier=noise_multiplier
    )


def step_epsilon(sample_rate: float, noise_multiplier: float) -> float:
    """Returns the ε of one Gaussian release on a Poisson sample, not rounded.

    A step that is (ε, δ)-DP on its batch is (ln(1 + q (e^ε - 1)), q δ)-DP on the data.
    """
    inner = inner_epsilon(sample_rate, noise_multiplier)
    return math.log1p(sample_rate * math.expm1(inner))


def allowed_steps(
    epsilon: float, expected_batch_size: int, noise_multiplier: float
) -> int:
    """Returns the number of steps on MNIST that a budget allows."""
    return accounting.steps(
        target_epsilon=epsilon,
        sample_rate=expected_batch_size / SAMPLE_SIZE,
        noise_multiplier=noise_multiplier,
        delta=DELTA,
        accountant=ACCOUNTANT,
    )


step_epsilon_by_rate = Comparison(
    step_epsilon,
    "sample_rate",
    (1.0, classic_plan().sample_rate),
    {"noise_multiplier": NOISE_MULTIPLIER},
    partial(limit, digits=3),
)
paper_run_by_accountant = Comparison(
    counted_epsilon, "accountant", ("moments", "rdp", "exact"), PAPER_RUN, limit
)
classic_run_by_accountant = Comparison(
    counted_epsilon,
    "accountant",
    ("exact", "rdp"),
    {
        "sample_rate": classic_plan().sample_rate,
        "noise_multiplier": NOISE_MULTIPLIER,
        "steps": classic_plan().steps,
    },
    limit,
)
full_batch_by_accountant = Comparison(
    counted_epsilon, "accountant", ("exact", "rdp"), FULL_BATCH_RUN, limit
)
steps_by_budget = Comparison(
    allowed_steps,
    "epsilon",
    (2.0, 3.0),
    {"noise_multiplier": NOISE_MULTIPLIER, "expected_batch_size": BATCH_SIZE},
    whole,
)
epsilon_by_steps = Comparison(
    sampled_epsilon,
    "steps",
    (1_000, 4_000),
    {"sample_rate": 0.05, "noise_multiplier": 3.53},
    limit,
)


def batch_epsilon(sample_rate: float, noise_multiplier: float) -> str:
    """Returns the ε of one Gaussian release for the records of its batch, at δ/q."""
    return limit(inner_epsilon(sample_rate, noise_multiplier))


def scaled_delta(sample_rate: float) -> str:
    """Returns δ/q."""
    return nearest(DELTA / sample_rate, 4)


def counting_factor() -> str:
    """Returns the largest valid ε of the classic run over the smallest."""
    end = growth((classic_plan().steps,))[0]
    return f"{float(f'{end.summed / end.sampled:.2g}'):,.0f}"


def sampling_factor() -> str:
    """Returns the ratio of the ε of the classic run without and with sampling."""
    end = growth((classic_plan().steps,))[0]
    return f"{float(f'{end.composed / end.sampled:.2g}'):,.0f}"


def accountants() -> list[tuple[str, ...]]:
    """Returns name, kind of answer and quality of the answer of each accountant."""
    return [
        (ACCOUNTANT_NAMES[name], accountant.status, ACCURACY[name])
        for name, accountant in ACCOUNTANTS.items()
    ]
