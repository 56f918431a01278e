"""The budget planner: solves for one of five linked numbers, given the other four."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

from dpsgd_explorer import accounting
from dpsgd_explorer.accounting import Phase
from dpsgd_explorer.accounting.core import validation as domains
from dpsgd_explorer.accounting.core.intervals import Interval
from dpsgd_explorer.accounting.epochs import steps_of
from dpsgd_explorer.accounting.queries import epsilon_interval
from dpsgd_explorer.errors import AccountingError, ConfigError
from dpsgd_explorer.experiments.fields.setting import Setting
from dpsgd_explorer.experiments.vocabulary import MOST_RECORDS, setting
from dpsgd_explorer.web.questions.privacy_models import DEFAULT_ACCOUNTANT
from dpsgd_explorer.web.questions.question import Question
from dpsgd_explorer.web.questions.rounding import limit

SOLVABLE = {
    "epsilon": "ε",
    "delta": "δ",
    "noise_multiplier": "σ",
    "expected_batch_size": "batch",
    "epochs": "epochs",
}
LEAST_DELTA = 1e-15  # smaller values are useless and lost to rounding in sums


class BudgetQuestion(Question):
    """Four of five numbers; the number that ``solve`` names follows from the others."""

    solve: str = Setting(
        label="Solve for",
        help="The other four stay as they are.",
        choices=SOLVABLE,
    ).field("noise_multiplier", "Solve")
    sample_size: int = setting("sample_size", 60_000, group="Data", ge=2)
    epsilon: float = setting("epsilon", 3.0, group="Budget", gt=0)
    delta: float = setting("delta", 1e-5, group="Budget", ge=LEAST_DELTA)
    noise_multiplier: float = setting(
        "noise_multiplier", 1.0, group="Budget", step=None, gt=0, le=1000
    )
    expected_batch_size: int = setting(
        "expected_batch_size",
        1024,
        group="Budget",
        help="Mean number of records in a batch.",
        step=None,
        le=MOST_RECORDS,
    )
    epochs: float = setting("epochs", 20.0, group="Budget")


@dataclass(frozen=True, kw_only=True)
class Budget:
    """All five numbers, and the steps that follow from them.

    Attributes:
        epsilon: Budget, which ``spent`` never exceeds.
    """

    sample_size: int
    epsilon: float
    delta: float
    noise_multiplier: float
    expected_batch_size: int
    steps: int

    @property
    def sample_rate(self) -> float:
        """Inclusion probability q of a step."""
        return self.expected_batch_size / self.sample_size

    @property
    def epochs(self) -> float:
        """Mean number of times that a record is used."""
        return self.steps * self.sample_rate

    @property
    def noise_per_update(self) -> float:
        """Standard deviation of the noise on the mean gradient, in units of C."""
        return self.noise_multiplier / self.expected_batch_size

    @property
    def run(self) -> Phase:
        """The run as one phase."""
        return Phase(self.sample_rate, self.noise_multiplier, self.steps)

    @cached_property
    def interval(self) -> Interval:
        """Interval of the ε that the run spends."""
        return epsilon_interval([self.run], self.delta, DEFAULT_ACCOUNTANT)

    @property
    def spent(self) -> float:
        """Upper bound on the ε that the run spends."""
        return self.interval.value


def solve(question: BudgetQuestion) -> Budget:
    """Returns the budget with the missing number.

    Raises:
        ConfigError: The four given numbers contradict each other or have no solution.
    """
    _check(question)
    try:
        return SOLVERS[question.solve](_given(question), question)
    except AccountingError as error:
        field = "epsilon" if error.field == "target_epsilon" else error.field
        message = str(error).replace("target_epsilon", "epsilon")
        raise ConfigError(field, message) from None


def _given(question: BudgetQuestion) -> Budget:
    budget = question.model_dump(exclude={"solve", "epochs"})
    batch_size = question.expected_batch_size
    steps = steps_of(question.epochs, question.sample_size, batch_size)
    return Budget(**budget, steps=steps)


def _for_delta(budget: Budget, _: BudgetQuestion) -> Budget:
    delta = accounting.delta(
        sample_rate=budget.sample_rate,
        noise_multiplier=budget.noise_multiplier,
        steps=budget.steps,
        epsilon=budget.epsilon,
        accountant=DEFAULT_ACCOUNTANT,
    )
    return replace(budget, delta=max(delta, LEAST_DELTA))


def _for_noise(budget: Budget, _: BudgetQuestion) -> Budget:
    noise = accounting.noise_multiplier(
        target_epsilon=budget.epsilon,
        sample_rate=budget.sample_rate,
        steps=budget.steps,
        delta=budget.delta,
        accountant=DEFAULT_ACCOUNTANT,
    )
    return replace(budget, noise_multiplier=noise)


def _for_epochs(budget: Budget, _: BudgetQuestion) -> Budget:
    steps = accounting.steps(
        target_epsilon=budget.epsilon,
        sample_rate=budget.sample_rate,
        noise_multiplier=budget.noise_multiplier,
        delta=budget.delta,
        accountant=DEFAULT_ACCOUNTANT,
    )
    if steps == 0:
        raise _too_little(replace(budget, steps=1), "a single step")
    return replace(budget, steps=steps)


def _for_batch(budget: Budget, question: BudgetQuestion) -> Budget:
    """Returns the largest batch size within the budget at equal epochs, to 1%."""

    def with_batch(size: int) -> Budget:
        steps = steps_of(question.epochs, question.sample_size, size)
        return replace(budget, expected_batch_size=size, steps=steps)

    max_steps = domains.MAX_STEPS
    smallest = max(1, math.ceil(question.epochs * question.sample_size / max_steps))
    if with_batch(smallest).spent > budget.epsilon:
        raise _too_little(with_batch(smallest), f"batches of {smallest:,}")
    fits = _fitting(lambda size: with_batch(size).spent <= budget.epsilon)
    return with_batch(fits(smallest, budget.sample_size))


def _fitting(within: Callable[[int], bool]) -> Callable[[int, int], int]:
    """Returns a search for the largest fitting size between two sizes.

    Sizes are bisected by their ratio.
    """

    def search(good: int, bad: int) -> int:
        if within(bad):
            return bad
        while bad - good > max(1, good // 100):
            middle = min(max(math.isqrt(good * bad), good + 1), bad - 1)
            good, bad = (middle, bad) if within(middle) else (good, middle)
        return good

    return search


def _too_little(budget: Budget, spender: str) -> ConfigError:
    return ConfigError(
        "epsilon",
        f"epsilon must be at least {limit(budget.spent, 4)}, which {spender} alone "
        f"would spend, got {budget.epsilon:g}. Raise epsilon or noise_multiplier.",
    )


def _check(question: BudgetQuestion) -> None:
    """Rejects contradicting numbers.

    Raises:
        ConfigError: Names the invalid number.
    """
    size = question.sample_size
    if question.expected_batch_size > size and question.solve != "expected_batch_size":
        raise ConfigError(
            "expected_batch_size",
            f"expected_batch_size must be at most N = {size}, got "
            f"{question.expected_batch_size}.",
        )
    if question.delta >= 1 / size and question.solve != "delta":
        raise ConfigError(
            "delta", f"delta must be below 1/N = 1/{size}, got {question.delta:g}."
        )


SOLVERS: dict[str, Callable[[Budget, BudgetQuestion], Budget]] = {
    "epsilon": lambda budget, _: replace(budget, epsilon=budget.spent),
    "delta": _for_delta,
    "noise_multiplier": _for_noise,
    "expected_batch_size": _for_batch,
    "epochs": _for_epochs,
}
