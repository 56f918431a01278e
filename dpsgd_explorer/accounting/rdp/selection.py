"""Private selection: Rényi divergences of the best of a random number of trials.

A private mechanism, such as a whole run with settings drawn at random, is repeated K
times.  The outcome with the best score is released; the score is part of the outcome,
and K is not released.  For a random K the divergence does not grow with the number of
settings.

| K | shape η | divergence of order λ; R(λ) of one trial |
|---|---|---|
| logarithmic, geometric, … | 0, 1, any | R(λ) + c + log(E[K]) / (λ - 1) |
| Poisson | infinite | R(λ) + E[K] δ + log(E[K]) / (λ - 1) |

Here c is the least (1 + η) ((1 - 1/λ') R(λ') + log(1/γ) / λ') over all orders λ', with
γ the parameter of the truncated negative binomial; δ is the δ of one trial at
ε = log(1 + 1 / (λ - 1)).  If one trial is purely ε-private, the selection is
(2 + η) ε-private: 3ε for a geometric K.

All of these are bounds.  They do not cover a K that is chosen or fixed, trials that
depend on each other, scores on records outside the trial's guarantee, and a release of
the other trials.

Source: Papernot and Steinke (2022), arXiv:2110.03620v2, Theorems 2 and 6; pure, for a
geometric K: Liu and Talwar (2019), arXiv:1811.07971.
"""

from __future__ import annotations

import math

import numpy as np

from dpsgd_explorer.accounting.core import validation as domains
from dpsgd_explorer.accounting.core.accountant import Floats
from dpsgd_explorer.accounting.core.tolerances import TOLERANCES
from dpsgd_explorer.accounting.rdp.curve import RdpCurve
from dpsgd_explorer.validation import plain_number

#: Largest mean number of trials, and largest finite shape, that are accepted.
MAX_TRIALS, MAX_SHAPE = 1e9, 1e3
#: Bisection steps for log γ.
HALVINGS = 200
#: Shape below which the distribution is computed as the logarithmic one.
MAX_LOGARITHMIC_SHAPE = 1e-8


def best_of_trials(
    trial: RdpCurve, *, mean_trials: float, shape: float = 1.0
) -> RdpCurve:
    """Returns the divergences of the best of a random number of trials, a bound.

    >>> from dpsgd_explorer.accounting.core.phase import Phase
    >>> trial = RdpCurve.of([Phase(0.01, 2.0, 1000)])
    >>> best = best_of_trials(trial, mean_trials=10)
    >>> round(trial.epsilon(1e-5), 3), round(best.epsilon(1e-5), 3)
    (0.686, 1.489)

    Args:
        trial: Divergences of one trial.
        mean_trials: E[K], at least 1.
        shape: η: 0 logarithmic, 1 geometric, infinity Poisson, which may be 0 trials;
            any other number the truncated negative binomial.

    Returns:
        Divergences at the orders of the trial's curve.

    Raises:
        AccountingError: an argument is outside its domain.

    Source: Papernot and Steinke (2022), arXiv:2110.03620v2, Theorems 2 and 6.
    """
    mean, eta = checked_mean(mean_trials), _shape(shape)
    orders, divergences = trial.orders, trial.divergences
    selected = divergences + math.log(mean) / (orders - 1)
    if math.isinf(eta):
        deltas = [trial.delta(math.log1p(1 / (order - 1))) for order in orders]
        selected = selected + mean * np.array(deltas)
    else:
        selected = selected + _constant(trial, mean, eta)
    # A divergence rises with its order, so the divergence of a larger order bounds it.
    least = np.minimum.accumulate(selected[::-1])[::-1]
    return RdpCurve(orders, least, trial.neighboring_relation)


def best_of_pure_trials(*, epsilon: float, shape: float = 1.0) -> float:
    """Returns ε of the best of a random number of trials that are ε-private, δ = 0.

    >>> best_of_pure_trials(epsilon=0.5)
    1.5

    Args:
        epsilon: ε of one trial, at least 0.
        shape: η, finite; 1 is geometric, of any mean.

    Raises:
        AccountingError: an argument is outside its domain; Poisson has no such bound.

    Source: Liu and Talwar (2019), arXiv:1811.07971, for a geometric number;
    Papernot and Steinke (2022), arXiv:2110.03620v2, for the others.
    """
    eta = _shape(shape)
    if math.isinf(eta):
        domains.refuse("shape", "finite for trials with δ = 0", shape)
    return (2 + eta) * domains.epsilon(epsilon)


def trial_parameter(mean_trials: float, shape: float = 1.0) -> float:
    """Returns γ of the truncated negative binomial with this mean and finite shape.

    P(K = k) is proportional to (1 - γ)^k Γ(k + η) / k!, k >= 1; γ = 1 is one trial.
    γ is rounded down, which rounds the divergence up.

    Raises:
        AccountingError: an argument is outside its domain.
    """
    mean, eta = checked_mean(mean_trials), _shape(shape)
    if math.isinf(eta):
        domains.refuse("shape", "finite: a Poisson number has no γ", shape)
    low, high = math.log(1 / (8 * (1 + eta) * mean**2)), 0.0  # log γ
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        if _log_mean(middle, eta) < math.log(mean):
            high = middle
        else:
            low = middle
    return math.exp(low) * (1 - TOLERANCES.bisection)


def _constant(trial: RdpCurve, mean: float, eta: float) -> float:
    """Returns c; the order λ' = 1 counts too, since there the factor of R(λ') is 0."""
    log_rate = -math.log(trial_parameter(mean, eta))
    with np.errstate(invalid="ignore"):
        terms: Floats = (1 - 1 / trial.orders) * trial.divergences
    return (1 + eta) * min(float((terms + log_rate / trial.orders).min()), log_rate)


def _log_mean(log_gamma: float, eta: float) -> float:
    """Returns the logarithm of E[K] = η (1 - γ) / (γ (1 - γ^η)).

    In the limit η = 0, E[K] = (1 - γ) / (γ log(1/γ)).
    """
    if log_gamma == 0:
        return 0.0
    top = math.log(-math.expm1(log_gamma)) - log_gamma
    if eta < MAX_LOGARITHMIC_SHAPE:
        return top - math.log(-log_gamma)
    return top + math.log(eta) - math.log(-math.expm1(eta * log_gamma))


def checked_mean(value: object) -> float:
    """Returns E[K], from 1 to MAX_TRIALS."""
    mean = domains.finite("mean_trials", value)
    if not 1 <= mean <= MAX_TRIALS:
        domains.refuse("mean_trials", f"from 1 to {MAX_TRIALS:g}", value)
    return mean


def _shape(value: object) -> float:
    if plain_number(value) == math.inf:
        return math.inf
    shape = domains.finite("shape", value)
    if not 0 <= shape <= MAX_SHAPE:
        domains.refuse("shape", f"from 0 to {MAX_SHAPE:g}, or infinity", value)
    return shape
