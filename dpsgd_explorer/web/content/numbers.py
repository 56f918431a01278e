"""Numbers for running text, computed by ``accounting``.

Limits and needs are rounded up, all others to nearest (``questions.rounding``).
Where nothing else is said, δ = 1e-5, one record is added or removed, batches are
Poisson samples, and the accountant is the exact one.
"""

from __future__ import annotations

import math
from functools import cache

from dpsgd_explorer import accounting
from dpsgd_explorer.accounting import Plan
from dpsgd_explorer.experiments.catalogue import MODELS
from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.web.figures import svg
from dpsgd_explorer.web.hub.examples import classic_run as budget
from dpsgd_explorer.web.hub.widgets.randomised_response import survey as response
from dpsgd_explorer.web.questions import odds as odds_of_attacker
from dpsgd_explorer.web.questions.odds import (
    attacker_accuracy,
    epsilon_of,
    percent_at_most,
)
from dpsgd_explorer.web.questions.rounding import (
    limit,
    nearest,
    need,
    percent,
    percent_limit,
    whole,
)

DELTA = 1e-5
ACCOUNTANT = "exact"  # as the chapters say of every ε without another word
HINT = 0.51  # a certainty that a wrong answer of the introduction names

odds = percent_at_most
small = svg.small


@cache
def default_run() -> TrainingConfig:
    """Return the trainer's default run."""
    return TrainingConfig.parse({})


def classic_rate() -> float:
    """Return the sample rate of the run that chapters come back to."""
    return budget.classic_plan().sample_rate


# What comparisons measure: numbers, not yet rounded.


def counted_epsilon(
    sample_rate: float, noise_multiplier: float, steps: int, accountant: str
) -> float:
    """Return what an accountant says that a run spends."""
    return accounting.epsilon(
        sample_rate=sample_rate,
        noise_multiplier=noise_multiplier,
        steps=steps,
        delta=DELTA,
        accountant=accountant,
    )


def sampled_epsilon(sample_rate: float, noise_multiplier: float, steps: int) -> float:
    """Return what a run spends."""
    return counted_epsilon(sample_rate, noise_multiplier, steps, ACCOUNTANT)


def epsilon_of_run(
    noise_multiplier: float, expected_batch_size: int, epochs: float, sample_size: int
) -> float:
    """Return what a run over so many epochs spends."""
    return Plan.create(
        sample_size=sample_size,
        expected_batch_size=expected_batch_size,
        epochs=epochs,
        noise_multiplier=noise_multiplier,
        delta=DELTA,
        accountant=ACCOUNTANT,
    ).epsilon()


def epsilon_of_sum(sensitivity: float, noise_std: float) -> float:
    """Return the exact ε of one sum with Gaussian noise of a standard deviation."""
    return accounting.gaussian_epsilon(
        delta=DELTA, noise_multiplier=noise_std / sensitivity
    )


def inner_epsilon(sample_rate: float, noise_multiplier: float) -> float:
    """Return the ε of one Gaussian release for the records of its batch, at δ/q."""
    return accounting.gaussian_epsilon(
        delta=DELTA / sample_rate, noise_multiplier=noise_multiplier
    )


def epsilon_of_step(sample_rate: float, noise_multiplier: float) -> float:
    """Return the ε of one Gaussian release on a Poisson sample.

    A step that is (ε, δ)-DP on its batch is (ln(1 + q (e^ε - 1)), q δ)-DP on the data.
    """
    inner = inner_epsilon(sample_rate, noise_multiplier)
    return math.log1p(sample_rate * math.expm1(inner))


def noise_factor(
    epsilon: float, divided_by: float, expected_batch_size: int, steps: int
) -> float:
    """Return how much more noise a smaller target asks for."""
    rate = expected_batch_size / default_run().sample_size
    large, small = (
        accounting.noise_multiplier(
            target_epsilon=target,
            sample_rate=rate,
            steps=steps,
            delta=DELTA,
            accountant=ACCOUNTANT,
        )
        for target in (epsilon, epsilon / divided_by)
    )
    return small / large


def noise_length(model: str, dataset: str) -> float:
    """Return the typical length of the noise on a gradient, in units of σC."""
    return math.sqrt(MODELS[model].parameters[dataset])


def allowed_steps(
    epsilon: float, expected_batch_size: int, noise_multiplier: float
) -> int:
    """Return how many steps on MNIST a target allows."""
    rate = expected_batch_size / budget.SAMPLE_SIZE
    return accounting.steps(
        target_epsilon=epsilon,
        sample_rate=rate,
        noise_multiplier=noise_multiplier,
        delta=DELTA,
        accountant=ACCOUNTANT,
    )


# As they are printed.


def gaussian_epsilon(noise_multiplier: float, steps: int = 1) -> str:
    """Return the exact ε of full-batch Gaussian releases."""
    return limit(
        accounting.gaussian_epsilon(
            delta=DELTA, noise_multiplier=noise_multiplier, steps=steps
        )
    )


def summed_epsilon(noise_multiplier: float, steps: int) -> str:
    """Return the ε of the same releases, added up one by one at δ / steps."""
    return limit(
        steps
        * accounting.gaussian_epsilon(
            delta=DELTA / steps, noise_multiplier=noise_multiplier
        )
    )


def gaussian_delta(epsilon: float, noise_multiplier: float) -> str:
    """Return the exact δ of one full-batch Gaussian release."""
    return limit(
        accounting.gaussian_delta(epsilon=epsilon, noise_multiplier=noise_multiplier), 3
    )


def beyond_the_band(epsilon: float, noise_multiplier: float) -> str:
    """Return the probability that one Gaussian release's privacy loss exceeds ε.

    The loss is N(μ²/2, μ²) with μ = 1/σ.
    """
    mu = 1 / noise_multiplier
    z = (epsilon - mu * mu / 2) / mu
    return nearest(math.erfc(z / math.sqrt(2)) / 2, 3)


def gaussian_noise(epsilon: float) -> str:
    """Return the exact noise multiplier of one Gaussian release for ε."""
    return need(accounting.gaussian_noise_multiplier(epsilon=epsilon, delta=DELTA))


def classical_noise(epsilon: float) -> str:
    """Return what the classical formula √(2 ln(1.25/δ)) / ε asks for instead."""
    return need(math.sqrt(2 * math.log(1.25 / DELTA)) / epsilon)


def step_in_its_batch(sample_rate: float, noise_multiplier: float) -> str:
    """Return ``inner_epsilon`` as it is printed."""
    return limit(inner_epsilon(sample_rate, noise_multiplier))


def scaled_delta(sample_rate: float) -> str:
    """Return δ/q."""
    return nearest(DELTA / sample_rate, 4)


def rarely(probability: float, tries: int) -> str:
    """Return, in percent, how likely it is that something rare happens at all."""
    return percent(-math.expm1(tries * math.log1p(-probability)), 0)


def even_odds(epsilon: float) -> str:
    """Return, in percent, e^ε / (1 + e^ε) to two decimals."""
    return percent(attacker_accuracy(epsilon), 2)


def hint_percent() -> str:
    """Return ``HINT`` in percent."""
    return percent(HINT, 0)


def hint_epsilon() -> str:
    """Return the ε that allows no more than ``HINT``."""
    return nearest(epsilon_of(HINT))


def times(epsilon: float) -> str:
    """Return the factor e^ε, to nearest."""
    return nearest(math.exp(epsilon), 0)


def survey_factor() -> str:
    """Return how much likelier an answer of the survey is under its truth."""
    return times(response.SURVEY_EPSILON)


def posterior(prior: float, epsilon: float) -> str:
    """Return the highest belief, in percent, that a prior can turn into (δ = 0)."""
    return percent_limit(odds_of_attacker.posterior(epsilon, prior))


def parameters(model: str, dataset: str = "mnist") -> str:
    """Return a model's number of trainable parameters."""
    return whole(MODELS[model].parameters[dataset])
