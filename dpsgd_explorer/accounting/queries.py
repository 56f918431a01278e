"""ε and δ of a run, by one accountant or by all of them.

Functions with ``sample_rate``, ``noise_multiplier`` and ``steps`` answer for one run
with constant settings.  Functions with ``phases`` answer for a sequence of such runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np
import numpy.typing as npt

from dpsgd_explorer.accounting.core import validation
from dpsgd_explorer.accounting.core.accountant import Phase
from dpsgd_explorer.accounting.core.intervals import Floats, Interval
from dpsgd_explorer.accounting.core.neighboring_relation import (
    ADD_OR_REMOVE_ONE,
    REPLACE_ONE,
    NeighboringRelation,
)
from dpsgd_explorer.accounting.fixed_size import fixed_size_interval
from dpsgd_explorer.accounting.rdp.fixed_size import fixed_size_rdp_epsilon
from dpsgd_explorer.accounting.registry import ACCOUNTANTS, accountant_and_relation
from dpsgd_explorer.accounting.sampling_schemes import (
    FIXED_SIZE,
    POISSON,
    RANDOM_ALLOCATION,
    allocation_of,
    why_not,
)

DOES_NOT_APPLY = "does not apply"


@dataclass(frozen=True)
class Answer:
    """The ε of one accountant.

    >>> Answer("bound", 2.5).epsilon
    2.5

    Attributes:
        status: "exact", "bound", "approximation" or "does not apply".
        epsilon: None where the accountant does not apply; may be infinite.
        reason: The reason why it does not apply, "" where it does.
    """

    status: str
    epsilon: float | None = None
    reason: str = ""


def epsilon(
    *,
    sample_rate: float,
    noise_multiplier: float,
    steps: int,
    delta: float,
    accountant: str = "exact",
    neighboring_relation: str = ADD_OR_REMOVE_ONE,
) -> float:
    """Returns the epsilon of DP-SGD at delta.

    >>> spent = epsilon(sample_rate=0.01, noise_multiplier=1.1, steps=1000, delta=1e-5)
    >>> round(spent, 4)
    1.5154

    Args:
        sample_rate: Poisson inclusion probability q per step, in (0, 1].
        noise_multiplier: Noise std over the clipping bound; 0 gives infinity.
        steps: Number of steps; 0 gives 0.
        delta: In (0, 1).
        accountant: Name in ACCOUNTANTS, or "all" for the exact one.
        neighboring_relation: "add_or_remove_one" or "replace_one".

    Raises:
        AccountingError: an argument is outside its domain.

    Source: the mechanism: Abadi et al. (2016), arXiv:1607.00133v2; its privacy loss:
    Zhu, Dong and Wang (2022), arXiv:2106.08567v2; docs/explanation/math.md.
    """
    chosen, relation = accountant_and_relation(accountant, neighboring_relation)
    run = Phase(sample_rate, noise_multiplier, steps)
    delta = validation.delta(delta)
    return float(chosen.epsilons([run], [run.steps], delta, relation)[0])


def epsilons(
    *,
    sample_rate: npt.ArrayLike,
    noise_multiplier: npt.ArrayLike,
    steps: npt.ArrayLike,
    delta: npt.ArrayLike,
    accountant: str = "exact",
    neighboring_relation: str = ADD_OR_REMOVE_ONE,
) -> Floats:
    """Returns the epsilon of DP-SGD for arrays of settings, each as ``epsilon`` does.

    >>> spent = epsilons(
    ...     sample_rate=[[0.01], [0.02]],
    ...     noise_multiplier=[1.0, 1.5, 2.0],
    ...     steps=1000,
    ...     delta=1e-5,
    ... )
    >>> spent.shape, spent[0].round(2).tolist()
    ((2, 3), [1.83, 0.92, 0.62])

    Shapes: the arguments are broadcast as in numpy; the result has their shape.

    Args:
        sample_rate: Poisson inclusion probabilities q per step, in (0, 1].
        noise_multiplier: Noise std over the clipping bound; 0 gives infinity.
        steps: Numbers of steps; 0 gives 0.
        delta: In (0, 1).
        accountant: Name in ACCOUNTANTS, or "all" for the exact one.
        neighboring_relation: "add_or_remove_one" or "replace_one".

    Raises:
        AccountingError: an argument is outside its domain, or the shapes differ.

    Source: as ``epsilon``.
    """
    terms = {
        "sample_rate": sample_rate,
        "noise_multiplier": noise_multiplier,
        "steps": steps,
        "delta": delta,
    }
    for name, values in terms.items():
        if np.ma.is_masked(values):
            validation.refuse(name, "numbers, none of them masked", values)
    try:  # as objects, so that every scalar is checked as it was given
        arrays = [np.asarray(values, dtype=object) for values in terms.values()]
        grid = np.broadcast(*arrays)
    except ValueError:
        shapes = ", ".join(f"{name} {np.shape(x)}" for name, x in terms.items())
        rule = "of a shape that broadcasts with the other arguments"
        validation.refuse("sample_rate", rule, shapes)
    spent = [
        epsilon(
            **dict(zip(terms, setting, strict=True)),
            accountant=accountant,
            neighboring_relation=neighboring_relation,
        )
        for setting in grid
    ]
    return np.array(spent, dtype=np.float64).reshape(grid.shape)


def epsilon_curve(
    *,
    sample_rate: float,
    noise_multiplier: float,
    delta: float,
    steps: Sequence[int],
    accountant: str = "exact",
    neighboring_relation: str = ADD_OR_REMOVE_ONE,
) -> list[float]:
    """Returns epsilon after each number of steps, in the order of ``steps``.

    >>> some = [0, 100, 1000]
    >>> curve = epsilon_curve(
    ...     sample_rate=0.01, noise_multiplier=1.1, delta=1e-5, steps=some
    ... )
    >>> [round(value, 4) for value in curve]
    [0.0, 0.5498, 1.5154]

    Args:
        sample_rate: Poisson inclusion probability q per step, in (0, 1].
        noise_multiplier: Noise std over the clipping bound; 0 gives infinity.
        delta: In (0, 1).
        steps: Numbers of steps, at least 0 each; 0 gives 0.
        accountant: Name in ACCOUNTANTS, or "all" for the exact one.
        neighboring_relation: "add_or_remove_one" or "replace_one".

    Raises:
        AccountingError: an argument is outside its domain.

    Source: as ``epsilon``.
    """
    chosen, relation = accountant_and_relation(accountant, neighboring_relation)
    counts = validation.all_steps(steps)
    run = Phase(sample_rate, noise_multiplier, max(counts, default=0))
    delta = validation.delta(delta)
    return [float(x) for x in chosen.epsilons([run], counts, delta, relation)]


def delta(
    *,
    sample_rate: float,
    noise_multiplier: float,
    steps: int,
    epsilon: float,
    accountant: str = "exact",
    neighboring_relation: str = ADD_OR_REMOVE_ONE,
) -> float:
    """Returns the delta of DP-SGD at epsilon >= 0; 1 without noise, 0 without steps.

    >>> at_one = delta(sample_rate=0.01, noise_multiplier=1.1, steps=1000, epsilon=1.0)
    >>> f"{at_one:.3g}"
    '0.000767'

    Args:
        sample_rate: Poisson inclusion probability q per step, in (0, 1].
        noise_multiplier: Noise std over the clipping bound; 0 gives 1.
        steps: Number of steps; 0 gives 0.
        epsilon: At least 0.
        accountant: Name in ACCOUNTANTS, or "all" for the exact one.
        neighboring_relation: "add_or_remove_one" or "replace_one".

    Raises:
        AccountingError: an argument is outside its domain.

    Source: as ``epsilon``.
    """
    chosen, relation = accountant_and_relation(accountant, neighboring_relation)
    run = Phase(sample_rate, noise_multiplier, steps)
    return chosen.delta([run], validation.epsilon(epsilon), relation)


def epsilon_interval(
    phases: Sequence[Phase],
    delta: float,
    accountant: str = "exact",
    neighboring_relation: str = ADD_OR_REMOVE_ONE,
) -> Interval:
    """Returns the interval of the ε that all phases spend.

    One million steps on batches of 1 in 1,000, and one query of all records:

    >>> phases = [Phase(0.001, 1.0, 1_000_000), Phase(1.0, 10.0, 1)]
    >>> spent = epsilon_interval(phases, 1e-5)
    >>> spent.status, round(spent.lower, 6), round(float(spent), 6)
    ('exact', 6.046653, 6.046653)

    Args:
        phases: Completed phases; the list may be empty.
        delta: In (0, 1).
        accountant: Name in ACCOUNTANTS, or "all" for the exact one.
        neighboring_relation: "add_or_remove_one" or "replace_one".

    Returns:
        Both bounds by the exact accountant; any other accountant has no lower bound.

    Raises:
        AccountingError: an argument is outside its domain, or the accountant does not
            apply to the phases.

    Source: as ``epsilon``.
    """
    total = sum(phase.steps for phase in phases)
    terms = (delta, accountant, neighboring_relation)
    return epsilon_intervals(phases, [total], *terms)[0]


def epsilon_intervals(
    phases: Sequence[Phase],
    steps: Sequence[int],
    delta: float,
    accountant: str = "exact",
    neighboring_relation: str = ADD_OR_REMOVE_ONE,
) -> list[Interval]:
    """Returns the interval of ε after each number of steps.

    Raises:
        AccountingError: as ``epsilon_interval``.
    """
    chosen, relation = accountant_and_relation(accountant, neighboring_relation)
    return chosen.bounds(phases, steps, validation.delta(delta), relation)


def delta_interval(
    phases: Sequence[Phase],
    epsilon: float,
    accountant: str = "exact",
    neighboring_relation: str = ADD_OR_REMOVE_ONE,
) -> Interval:
    """Returns the interval of δ of all phases at an ε.

    >>> at_one = delta_interval([Phase(0.01, 1.1, 1000)], 1.0)
    >>> at_one.status, f"{at_one.lower:.4g}", f"{float(at_one):.4g}"
    ('exact', '0.0007669', '0.0007669')

    Args:
        phases: Completed phases; the list may be empty.
        epsilon: At least 0.
        accountant: Name in ACCOUNTANTS, or "all" for the exact one.
        neighboring_relation: "add_or_remove_one" or "replace_one".

    Raises:
        AccountingError: as ``epsilon_interval``.

    Source: as ``epsilon``.
    """
    chosen, relation = accountant_and_relation(accountant, neighboring_relation)
    return chosen.delta_bounds(phases, [validation.epsilon(epsilon)], relation)[0]


def exceeds(
    phases: Sequence[Phase],
    target: float,
    delta: float,
    accountant: str = "exact",
    neighboring_relation: str = ADD_OR_REMOVE_ONE,
) -> bool:
    """Returns True if the phases are proven to spend more than the target ε."""
    most = validation.epsilon(target)
    lower = epsilon_interval(phases, delta, accountant, neighboring_relation).lower
    return lower is not None and lower > most


def all_epsilons(
    *,
    sample_rate: float,
    noise_multiplier: float,
    steps: int,
    delta: float,
    sampling: str = POISSON,
    neighboring_relation: str = ADD_OR_REMOVE_ONE,
) -> dict[str, Answer]:
    """Returns the answer of each accountant for DP-SGD at delta, by its name.

    >>> answers = all_epsilons(
    ...     sample_rate=0.01, noise_multiplier=1.1, steps=1000, delta=1e-5
    ... )
    >>> round(answers["exact"].epsilon, 4), round(answers["rdp"].epsilon, 4)
    (1.5154, 1.7118)
    >>> answers["gdp"].status, answers["zcdp"].status
    ('approximation', 'does not apply')

    Args:
        sample_rate: Probability q with which a record joins a step; batch over N for
            batches of fixed size, 1/slots for random allocation.
        noise_multiplier: Noise std over the clipping bound; 0 gives infinity.
        steps: Number of steps.
        delta: In (0, 1).
        sampling: One of SAMPLINGS.
        neighboring_relation: "add_or_remove_one" or "replace_one".

    Raises:
        AccountingError: an argument is outside its domain.

    Source: see the module of each accountant.
    """
    run = Phase(sample_rate, noise_multiplier, steps)
    delta = validation.delta(delta)
    answers = all_answers([run], delta, sampling, neighboring_relation)
    if (sampling, neighboring_relation) == (FIXED_SIZE, REPLACE_ONE):
        settings = asdict(run)
        interval = fixed_size_interval(**settings, delta=delta)
        answers["exact"] = Answer(interval.status, interval.value)
        answers["rdp"] = Answer(
            "bound", fixed_size_rdp_epsilon(**settings, delta=delta)
        )
    return answers


def all_answers(
    phases: Sequence[Phase],
    delta: float,
    sampling: str = POISSON,
    neighboring_relation: str = ADD_OR_REMOVE_ONE,
) -> dict[str, Answer]:
    """Returns the answer of each accountant for all phases at delta, by its name.

    Raises:
        AccountingError: an argument is outside its domain.
    """
    relation = NeighboringRelation.of(neighboring_relation)
    reasons = {
        name: why_not(accountant, phases, sampling, relation)
        for name, accountant in ACCOUNTANTS.items()
    }
    usable = {name: ACCOUNTANTS[name] for name in reasons if not reasons[name]}
    total = [sum(phase.steps for phase in phases)]
    if usable and sampling == RANDOM_ALLOCATION:
        phases = [allocation_of(phase) for phase in phases]
    answers = {
        name: Answer(DOES_NOT_APPLY, reason=why) for name, why in reasons.items()
    }
    for name, accountant in usable.items():
        [interval] = accountant.bounds(phases, total, delta, relation)
        answers[name] = Answer(interval.status, interval.value)
    return answers
