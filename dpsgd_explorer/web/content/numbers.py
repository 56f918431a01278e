"""Numbers for running text: computed by ``accounting``, printed on the safe side.

An upper limit of a privacy loss, and the noise that it asks for, are rounded up.
Where nothing else is said, δ = 1e-5, one record is added or removed, batches are
Poisson samples, and the accountant is the exact one.
"""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, Decimal

from dpsgd_explorer import accounting
from dpsgd_explorer.accounting import round_up
from dpsgd_explorer.experiments.catalogue import MODELS
from dpsgd_explorer.web.figures import randomized_response as response
from dpsgd_explorer.web.figures import svg
from dpsgd_explorer.web.questions.odds import percent_at_most

DELTA = 1e-5
ACCOUNTANT = "exact"  # as the chapters say of every ε without another word

odds = percent_at_most
survey_error = response.standard_error
curator_error = response.curator_error
points = response.points
small = svg.small


def epsilon(
    sample_rate: float, noise_multiplier: float, steps: int, digits: int = 2
) -> str:
    """Return what DP-SGD spends."""
    spent = accounting.epsilon(sample_rate, noise_multiplier, steps, DELTA, ACCOUNTANT)
    return round_up(spent, digits)


def rdp_epsilon(sample_rate: float, noise_multiplier: float, steps: int) -> str:
    """Return what RDP says of the same run: a bound."""
    spent = accounting.epsilon(sample_rate, noise_multiplier, steps, DELTA, "rdp")
    return round_up(spent)


def noise_multiplier(target_epsilon: float, sample_rate: float, steps: int) -> str:
    """Return the noise multiplier for a target, to three decimals."""
    needed = accounting.noise_multiplier(
        target_epsilon, sample_rate, steps, DELTA, ACCOUNTANT
    )
    return round_up(needed, 3)


def steps(target_epsilon: float, sample_rate: float, noise_multiplier: float) -> str:
    """Return how many steps a target allows."""
    allowed = accounting.steps(
        target_epsilon, sample_rate, noise_multiplier, DELTA, ACCOUNTANT
    )
    return f"{allowed:,}"


def gaussian_epsilon(
    noise_multiplier: float, steps: int = 1, delta: float = DELTA, digits: int = 2
) -> str:
    """Return the exact ε of full-batch Gaussian releases."""
    return round_up(accounting.gaussian_epsilon(delta, noise_multiplier, steps), digits)


def summed_epsilon(noise_multiplier: float, steps: int) -> str:
    """Return the ε of the same releases, added up one by one at δ / steps."""
    return round_up(
        steps * accounting.gaussian_epsilon(DELTA / steps, noise_multiplier)
    )


def gaussian_delta(epsilon: float, noise_multiplier: float) -> str:
    """Return the exact δ of one full-batch Gaussian release, three decimals up."""
    return round_up(accounting.gaussian_delta(epsilon, noise_multiplier), 3)


def beyond_the_band(epsilon: float, noise_multiplier: float) -> str:
    """Return the probability that one Gaussian release's privacy loss exceeds ε.

    The loss is N(μ²/2, μ²) with μ = 1/σ.
    """
    mu = 1 / noise_multiplier
    z = (epsilon - mu * mu / 2) / mu
    return round_up(math.erfc(z / math.sqrt(2)) / 2, 3)


def gaussian_noise(epsilon: float) -> str:
    """Return the exact noise multiplier of one Gaussian release for ε."""
    return round_up(accounting.gaussian_noise_multiplier(epsilon, DELTA), 3)


def classical_noise(epsilon: float) -> str:
    """Return what the classical formula √(2 ln(1.25/δ)) / ε asks for instead."""
    return round_up(math.sqrt(2 * math.log(1.25 / DELTA)) / epsilon, 3)


def amplified_epsilon(sample_rate: float, noise_multiplier: float) -> str:
    """Return the ε of one Gaussian release on a Poisson sample.

    A step that is (ε, δ)-DP on its batch is (ln(1 + q (e^ε - 1)), q δ)-DP on the data.
    """
    inner = accounting.gaussian_epsilon(DELTA / sample_rate, noise_multiplier)
    return round_up(math.log1p(sample_rate * math.expm1(inner)), 3)


def rarely(probability: float, tries: int) -> str:
    """Return, in percent, how likely it is that something rare happens at all."""
    return percent(-math.expm1(tries * math.log1p(-probability)), 0)


def posterior(prior: float, epsilon: float) -> str:
    """Return the highest belief, in percent, that a prior can turn into (δ = 0)."""
    odds = prior / (1 - prior) * math.exp(epsilon)
    return percent(odds / (1 + odds), 1)


def percent(share: float, digits: int = 1) -> str:
    """Return a share in percent, rounded up, without the sign."""
    value = Decimal(f"{100 * share:.12g}")
    return f"{value.quantize(Decimal(1).scaleb(-digits), rounding=ROUND_CEILING):f}"


def truth_probability() -> float:
    """Return how often the survey's coins let the truth through."""
    return response.truth_probability(response.SURVEY_EPSILON)


def parameters(model: str, dataset: str = "mnist") -> str:
    """Return a model's number of trainable parameters."""
    return f"{MODELS[model].parameters[dataset]:,}"


def noise_length(model: str, dataset: str = "mnist") -> str:
    """Return the typical length of the noise on a model's gradient, in units of σC."""
    return f"{math.sqrt(MODELS[model].parameters[dataset]):.0f}"
