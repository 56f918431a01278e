"""Texts on each kind of run: description, result and terms of its ε.

``ABOUT_…`` precedes the settings of the kind in the reference.
``reached`` takes the data of an ``evaluation`` or ``end`` event, ``terms`` the settings
and the steps done.
"""

from __future__ import annotations

import math
from typing import Any

from dpsgd_explorer.accounting import round_up
from dpsgd_explorer.accounting.core.phase import phase_with
from dpsgd_explorer.accounting.queries import epsilon_interval
from dpsgd_explorer.accounting.sampling_schemes import FULL_BATCH
from dpsgd_explorer.experiments import (
    engines_config,
    regression_config,
    training_config,
)
from dpsgd_explorer.experiments.accountant_words import claim, terms_of
from dpsgd_explorer.experiments.attack_config import AttackConfig
from dpsgd_explorer.experiments.regression_config import RegressionConfig
from dpsgd_explorer.experiments.regression_methods_config import (
    METHOD_NAMES,
    RegressionMethodsConfig,
)
from dpsgd_explorer.experiments.search_config import SearchConfig
from dpsgd_explorer.experiments.training_config import TrainingConfig

Data = dict[str, Any]

ABOUT_TRAINING = f"""
The names are the same in JSON, in the query string of `/train/`, in the command line's
file and in Python. Set either `steps` or `epochs`, and either `target_epsilon` or
`noise_multiplier`. With none given, `steps` is {training_config.DEFAULT_STEPS} and
`target_epsilon` is {training_config.DEFAULT_EPSILON:g}.
"""
ABOUT_REGRESSION = f"""
Noisy gradient descent on California housing, as `/labs/linear-regression/` launches it.
Set two of `noise_multiplier`, `steps` and `target_epsilon`; the third is computed.
Missing settings are filled in with `target_epsilon` =
{regression_config.DEFAULT_EPSILON:g}, then by `noise_multiplier` =
{regression_config.DEFAULT_NOISE:g}.
"""
ABOUT_REGRESSION_METHODS = """
Linear regression on California housing or on a visitor's own table, by one or several
private methods and without privacy. `/data/` launches it for an own table with a number
to predict. The methods share `target_epsilon` equally.
"""
ABOUT_ENGINES = f"""
`/labs/engines/` launches it. It uses random inputs and no data set. `width` must be a
multiple of 4. A step needs at most {engines_config.MOST_A_STEP:.0e} multiply-adds.
"""
ABOUT_ATTACK = """
`/labs/attack/` launches it. It trains two models on the same half of the records, one
with privacy and one without, and attacks both.
"""
ABOUT_PLANTED_BUG = """
`/labs/find-the-bug/` launches it. It uses generated records and no data set.
"""
MADE_UP_DATA = "made-up data, nothing is spent"


def accuracy(data: Data) -> str:
    """Return the test accuracy."""
    reached = data["test_accuracy"]
    return "no winner" if reached is None else f"accuracy {reached:.2%}"


def error(data: Data) -> str:
    """Return the median error of a regression."""
    median = data["mse_median"]
    return f"median MSE {math.inf if median is None else median:.4f}"


def typical_error(data: Data) -> str:
    """Return a released method with its error; at the end, that all are released."""
    if "method" not in data:
        return "all methods released"
    value = data["not_private_rmse"]
    error = "infinite" if value is None else f"{value:.4g}"
    return f"{METHOD_NAMES[data['method']]}, typical error {error} (not private)"


def cost(data: Data) -> str:
    """Return the cost of an engine; at the end, the difference between all engines."""
    if "engine" not in data:
        difference = data["difference"]
        apart = "none to compare" if difference is None else f"{difference:.0e} apart"
        return f"gradients {apart}"
    if data["ratio"] is None:
        return f"{data['engine']} refused"
    return f"{data['engine']} {data['ratio']:.2f} of an ordinary step"


def proven(data: Data) -> str:
    """Return the lower bound on ε that the canaries of an audited loop prove."""
    if data["epsilon_lower"] is None:
        return "no step to audit"
    return (
        f"proven: epsilon at least {math.floor(100 * data['epsilon_lower']) / 100}, "
        f"promised: {round_up(data['epsilon_promised'])}"
    )


def guessed(data: Data) -> str:
    """Return the area under the attack's ROC curve; 0.5 is chance."""
    if "attack" not in data:
        return f"area {data['area']:.3f} of the best attack on the private model"
    return f"area {data['area']:.3f}, {data['attack']}, {data['target']} model"


def training_terms(config: TrainingConfig, steps: int) -> str:
    """Return the terms of a training's ε after ``steps`` steps."""
    plan = config.plan
    if not plan.is_private:
        return "no noise was added: not private"
    setting = (plan.sample_rate, plan.noise_multiplier)
    run = phase_with(*setting, steps, plan.slots, plan.bands)
    status = epsilon_interval([run], plan.delta, plan.accountant).status
    claimed = claim(plan.deciding_accountant, status)
    terms = terms_of(plan.sample_rate, plan.delta, sampling=config.sampling_law)
    return f"{terms}; {claimed}"


def regression_terms(config: RegressionConfig, _steps: int) -> str:
    """Return the terms of a regression's ε."""
    if config.uses_private_rate:
        return "the learning rate was taken from the data: not private"
    terms = terms_of(1.0, config.delta, config.neighboring_relation, FULL_BATCH)
    return f"{terms}; one Gaussian: exact"


def regression_methods_terms(config: RegressionMethodsConfig, _steps: int) -> str:
    """Return the terms of the ε of all released methods."""
    relation = config.bounds.neighboring_relation
    terms = terms_of(1.0, config.delta, relation, FULL_BATCH)
    return f"{terms}; all releases are one Gaussian: exact; steps are methods"


def search_terms(config: SearchConfig, _steps: int) -> str:
    """Return the terms of a search's ε."""
    terms = terms_of(config.plan.sample_rate, config.delta)
    return f"{terms}; the choice of the winner: bound; steps are trainings"


def attack_terms(config: AttackConfig, _steps: int) -> str:
    """Return the terms of the attacked private model's ε."""
    plan = config.plan
    return (
        f"{terms_of(plan.sample_rate, plan.delta)}; ε is the private model's alone: "
        "attacks look at the records, so their areas are not private; steps are "
        "trainings"
    )
