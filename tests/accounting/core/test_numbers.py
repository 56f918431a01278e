"""Every kind of real scalar gives the digits of the plain number with its value."""

import json
import math
from collections.abc import Callable
from dataclasses import asdict, fields, is_dataclass, replace
from decimal import Decimal
from fractions import Fraction
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dpsgd_explorer import accounting, regression
from dpsgd_explorer.accounting import AllocationPhase, Odometer, Phase, RdpCurve
from dpsgd_explorer.accounting.auditing import (
    audit,
    error_rates,
    exact_family,
    gaussian,
    one_run,
)
from dpsgd_explorer.accounting.batches import Batches, batches_interval
from dpsgd_explorer.accounting.mechanisms.entries import GAUSSIAN, Entry
from dpsgd_explorer.accounting.queries import (
    delta_interval,
    epsilon_interval,
    epsilon_intervals,
)
from dpsgd_explorer.accounting.schedules import Cosine, Exponential, Staged, Stairs
from dpsgd_explorer.accounting.trade_off_curves import trade_off_intervals
from dpsgd_explorer.errors import AccountingError, ConfigError
from tests.in_order import in_order

NUMPY_WHOLE = [np.int8, np.int16, np.int32, np.int64]
NUMPY_WHOLE += [np.uint8, np.uint16, np.uint32, np.uint64]
NUMPY_REAL = [np.float16, np.float32, np.float64, np.longdouble]
TORCH_WHOLE = [torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64]
TORCH_REAL = [torch.bfloat16, torch.float16, torch.float32, torch.float64]


def of_torch(kind):
    return lambda value: torch.tensor(value, dtype=kind)


def of_array(kind):
    return lambda value: np.array(value, dtype=kind)


REAL = [float, Fraction, Decimal, *NUMPY_REAL, of_array(np.float32)]
REAL += [*map(of_torch, TORCH_REAL)]
WHOLE = [int, *REAL, *NUMPY_WHOLE, of_array(np.uint8)]
WHOLE += [*map(of_torch, TORCH_WHOLE)]
NO_NUMBERS = [
    True,
    np.True_,
    torch.tensor(True),
    math.nan,
    np.float32("nan"),
    torch.tensor(math.nan),
    1 + 0j,
    np.complex64(1),
    "0.5",
    np.str_("0.5"),
    np.array(["0.5"]),
    np.array([0.5]),
    torch.tensor([0.5]),
    np.timedelta64(1, "D"),
    [0.5],
    np.ma.masked,
    np.ma.array(0.5, mask=True),
    np.array([1.0, 2.0]),
    torch.ones(2),
    np.ma.array([0.5, 0.25], mask=[True, False]),
]
#: Numbers that no float holds, and that Python writes in no message.
TOO_LARGE = [10**5000, -(10**5000), Fraction(10**5000), [10**5000]]
#: Numbers whose floats are whole.
NOT_WHOLE = [
    Fraction(1, 10**5000),
    Fraction(10**30 + 1, 10**30),
    Decimal("1e-400"),
    Decimal(7) + Decimal("1e-20"),
    np.longdouble(7) + np.longdouble(2.0**-60),
]
ALL_WHOLE = {"steps", "asked", "before", "sample_size", "expected_batch_size", "every"}
ALL_WHOLE |= {"stages", "repetitions", "max_batch_size", "public_size", "keep_every"}
ALL_WHOLE |= {"digits", "first", "records", "num_buckets", "count"}


class Call(NamedTuple):
    """A public function and numbers for its arguments.

    Each number has few bits, so that every kind of scalar can hold it.
    """

    function: Callable[..., Any]
    numbers: dict[str, float]


RUN = {"sample_rate": 1 / 16, "noise_multiplier": 1.5, "steps": 120}
DELTA = {"delta": 2.0**-13}
STEP = Phase(1 / 16, 1.5, 1)
CURVE = RdpCurve.of([STEP])
SIZES = {"sample_size": 100, "max_batch_size": 20}
X = np.eye(4)[[0, 1, 2, 3, 0]] / 2
Y = np.array([1.0, -1.0, 0.5, 0.25, 1.0])


def of_two_phases(sample_rate, noise_multiplier, steps, delta):
    run = Phase(sample_rate, noise_multiplier, steps)
    return epsilon_interval([run, replace(run, noise_multiplier=2.0)], delta)


def odometer(sample_rate, noise_multiplier, steps, query, delta):
    made = Odometer()
    made.add_dp_sgd(sample_rate, noise_multiplier, steps)
    made.add_dp_sgd(sample_rate, noise_multiplier, steps)
    made.add_gaussian(query)
    again = Odometer.from_json(made.to_json())
    return made.phases, made.to_json(), again.epsilon(delta), made.epsilons(delta)


def fixed_sizes(sample_rate, noise_multiplier, steps, delta):
    ledger = Odometer()
    ledger.add_fixed_size(sample_rate, noise_multiplier, steps)
    ledger.add_fixed_size(sample_rate, noise_multiplier, steps)
    ledger.add_gaussian(5.0)
    terms = {"neighboring_relation": "replace_one"}
    return ledger.to_json(), ledger.epsilon_interval(delta, **terms)


def other_mechanisms(scale, sensitivity, noise_parameter, num_buckets, epsilon, count):
    ledger = Odometer()
    ledger.add(accounting.LaplaceMechanism(scale, sensitivity), count=count)
    ledger.add(accounting.DiscreteGaussianMechanism(scale))
    ledger.add(accounting.RandomizedResponse(noise_parameter, num_buckets))
    ledger.add(accounting.EpsilonDelta(epsilon))
    terms = {"neighboring_relation": "replace_one"}
    return ledger.to_json(), ledger.epsilon_interval(2.0**-13, **terms)


def odometer_search(searched):
    """Return a call of one of its searches."""

    def search(**terms):
        made = Odometer([Entry("query", GAUSSIAN, Phase(1.0, 8.0, 1))])
        return getattr(made, searched)(**terms)

    given_terms = {
        x: number for x, number in (RUN | CALIBRATED).items() if x != searched
    }
    return Call(search, given_terms)


def plan(steps_within, asked, **terms):
    made = accounting.Plan(**terms)
    json.dumps(asdict(made))
    spent = made.epsilon(asked), made.epsilons([1, asked])
    return made, *spent, made.steps_within(steps_within), made.phases


def scheduled_plan(rate, every, to, stages, epochs, target_epsilon):
    terms = {"sample_size": 100, "expected_batch_size": 5, "delta": 2.0**-13}
    terms |= {"epochs": epochs, "target_epsilon": target_epsilon}
    schedules = [Exponential(rate), Stairs(rate, every), Staged(Cosine(to), stages)]
    made = [accounting.Plan.create(noise_schedule=x, **terms) for x in schedules]
    return (
        made,
        [run.epsilons([1, 5]) for run in made],
        [x.as_data() for x in schedules],
    )


def filtered_run(epsilon, delta, order, steps):
    run = accounting.FilteredRun(epsilon, delta, order)
    done = replace(STEP, steps=steps)
    counted = run.counted([done], [1, steps])
    return run, run.budget, counted, run.steps_within([STEP], done)


def renyi_filter(epsilon, delta, order, sample_rate, noise_multiplier, steps):
    made = accounting.RenyiFilter(epsilon, delta, order=order)
    made.spend(sample_rate, noise_multiplier, steps)
    left = made.steps_left(sample_rate, noise_multiplier)
    return made.order, made.budget, made.spent, left, made.budget_at(order)


def rdp_curve(orders, divergences, steps, epsilon, delta):
    made = RdpCurve([orders, 64], [divergences, 32]).self_compose(steps)
    return (
        made.at([orders, 8]),
        made.epsilon(delta),
        made.delta(epsilon),
        made.to_json(),
    )


def loss_distribution(interval, first, infinite, epsilon, delta, tail):
    made = accounting.LossDistribution(interval, first, [0.25, 0.25, 0.375], infinite)
    both = made.compose(made).trimmed(tail)
    spent = made.deltas([epsilon]), both.epsilon(delta)
    below = accounting.LossDistribution.below(interval, first, [0.75, 0.25, 0.125])
    return made, both, *spent, below


def distribution(steps, interval):
    phases = [replace(STEP, steps=steps)]
    made = accounting.PrivacyLossDistribution.of(phases, interval=interval)
    return made.to_json(), made.self_compose(steps).to_json()


@cache
def two_steps():
    return accounting.PrivacyLossDistribution.of(
        [replace(STEP, steps=2)], interval=0.25
    )


def spent_of_two_steps(epsilon, delta):
    return two_steps().epsilon(delta), two_steps().delta(epsilon)


def of_accountants(epsilon, delta, steps):
    phases = [replace(STEP, steps=120)]
    return [
        (
            x.epsilons(phases, [steps], delta),
            x.delta(phases, epsilon),
            x.bounds(phases, [steps], delta),
            x.delta_bounds(phases, [epsilon]),
        )
        for name, x in accounting.ACCOUNTANTS.items()
        if name != "zcdp"
    ]


def questions(steps, epsilon, delta, false_positive_rates):
    phases = [replace(STEP, steps=120)]
    return (
        epsilon_intervals(phases, [1, steps], delta),
        delta_interval(phases, epsilon),
        trade_off_intervals(phases, [0.5, false_positive_rates]),
        accounting.trade_off(
            sample_rate=1 / 16,
            noise_multiplier=1.5,
            steps=120,
            false_positive_rates=[false_positive_rates],
        ),
    )


def truncated(
    sample_rate,
    noise_multiplier,
    steps,
    delta,
    false_positive_rates,
    **sizes,
):
    run = (sample_rate, noise_multiplier, steps)
    spent = in_order(accounting.truncated_poisson_epsilon, *run, delta, **sizes)
    rates = {"false_positive_rates": [false_positive_rates], **sizes}
    return (
        spent,
        in_order(accounting.truncated_poisson_trade_off, *run, **rates),
        batches_interval(
            Phase(*run), delta, "exact", batches=Batches("truncated_poisson", **sizes)
        ),
    )


def correlated(*, steps, bands, decay, momentum, slots, sample_rate, noise_multiplier):
    geometric = accounting.geometric_strategy(decay, steps)
    tree = accounting.TreeStrategy(steps)
    return (
        accounting.cyclic_poisson(
            sample_rate=sample_rate,
            noise_multiplier=noise_multiplier,
            steps=steps,
            bands=bands,
        ),
        accounting.banded_strategy(steps, bands),
        accounting.square_root_strategy(steps, bands),
        geometric.fixed_slots_sensitivity(slots),
        tree.fixed_slots_sensitivity(slots),
        geometric.rmse(accounting.momentum_workload(steps, momentum)),
        tree.rmse(accounting.momentum_workload(steps, momentum)),
        accounting.fixed_slots(
            noise_multiplier=noise_multiplier,
            steps=steps,
            slots=slots,
            strategy=geometric,
        ),
    )


def of_a_group(sample_rate, noise_multiplier, steps, delta, epsilon, records):
    run = Phase(sample_rate, noise_multiplier, steps)
    return (
        accounting.group_epsilon(**asdict(run), delta=delta, records=records),
        accounting.group_epsilon_interval([run], delta, records),
        accounting.group_delta_interval([run], epsilon, records),
        accounting.chained_epsilon([run], delta, records),
    )


def audited(delta, confidence):
    scores = error_rates.Scores(np.linspace(1.0, 3.0, 64), np.linspace(-3.0, 1.5, 64))
    phases = [replace(STEP, steps=120)]
    terms = (delta, confidence)
    return (
        audit.audit(scores, phases, *terms),
        exact_family.exact_family_epsilon(scores, [1.0], phases, *terms),
        gaussian.gaussian_dp_epsilon(scores, [1.0], *terms),
        gaussian.gaussian_pair_epsilon(scores, *terms),
        one_run.one_run_epsilon(scores, [8], *terms),
        one_run.f_dp_one_run_epsilon(scores, [8], *terms),
    )


def released(release, **terms):
    return release(X, Y, rng=np.random.default_rng(5), **terms)


def preprocessed(feature_ranges, **terms):
    made = regression.Preprocessing((feature_ranges,) * 4, **terms)
    return made, made.apply(X, Y)


CALIBRATED = {"target_epsilon": 2.0, **DELTA}
PRICE = {"epsilon": 2.0, **DELTA, "y_bound": 2.0, "x_bound": 0.75, "repetitions": 2}
CALLS = {
    "Phase": Call(Phase, RUN),
    "Plan": Call(
        plan,
        {"sample_size": 120, "expected_batch_size": 15, "steps": 30, "asked": 7}
        | {"noise_multiplier": 1.5, "steps_within": 1.25, **DELTA},
    ),
    "Plan.create": Call(
        scheduled_plan,
        {"rate": 0.875, "every": 3, "to": 0.5, "stages": 2}
        | {"epochs": 0.5, "target_epsilon": 2.0},
    ),
    "Odometer": Call(odometer, RUN | {"query": 8.0} | DELTA),
    "Odometer.add_fixed_size": Call(fixed_sizes, RUN | DELTA),
    "Odometer.add": Call(
        other_mechanisms,
        {"scale": 4.0, "sensitivity": 0.5, "noise_parameter": 0.75, "num_buckets": 3}
        | {"epsilon": 0.5, "count": 2},
    ),
    **{f"Odometer.{name}": odometer_search(name) for name in RUN},
    "FilteredRun": Call(
        filtered_run, {"epsilon": 4.0, **DELTA, "order": 4.5, "steps": 120}
    ),
    "RenyiFilter": Call(renyi_filter, RUN | {"epsilon": 4.0, **DELTA, "order": 4.5}),
    "RdpCurve": Call(
        rdp_curve,
        {"orders": 4.5, "divergences": 0.125, "steps": 3, "epsilon": 0.5, **DELTA},
    ),
    "LossDistribution": Call(
        loss_distribution,
        {"interval": 0.25, "first": 3, "infinite": 0.125, "epsilon": 0.5}
        | {"delta": 0.375, "tail": 2.0**-13},
    ),
    "PrivacyLossDistribution": Call(distribution, {"steps": 7, "interval": 0.25}),
    "PrivacyLossDistribution.epsilon": Call(
        spent_of_two_steps, {"epsilon": 0.5} | DELTA
    ),
    "ACCOUNTANTS": Call(of_accountants, {"epsilon": 0.5, "steps": 100} | DELTA),
    "epsilon_interval": Call(of_two_phases, RUN | DELTA),
    "group_epsilon": Call(of_a_group, RUN | DELTA | {"epsilon": 0.5, "records": 3}),
    "AllocationPhase": Call(
        AllocationPhase, {"noise_multiplier": 1.5, "slots": 4, "steps": 6}
    ),
    "random_allocation_epsilon": Call(
        accounting.random_allocation_epsilon,
        {"noise_multiplier": 1.5, "slots": 4, "epochs": 1} | DELTA,
    ),
    "random_allocation_delta": Call(
        accounting.random_allocation_delta,
        {"noise_multiplier": 1.5, "slots": 4, "epochs": 1, "epsilon": 0.5},
    ),
    "random_allocation_noise_multiplier": Call(
        accounting.random_allocation_noise_multiplier,
        {"target_epsilon": 2.0, "slots": 4, "epochs": 1} | DELTA,
    ),
    "shuffled_interval": Call(
        accounting.shuffled_interval,
        {"noise_multiplier": 0.75, "slots": 4, "epochs": 2} | DELTA,
    ),
    "random_allocation_epochs": Call(
        accounting.random_allocation_epochs,
        {"target_epsilon": 0.25, "noise_multiplier": 2.5, "slots": 4} | DELTA,
    ),
    "banded_strategy": Call(
        correlated,
        {"steps": 9, "bands": 2, "decay": 0.5, "momentum": 0.75, "slots": 3}
        | {"sample_rate": 0.125, "noise_multiplier": 1.5},
    ),
    "questions": Call(
        questions,
        {"steps": 100, "epsilon": 0.5, "false_positive_rates": 0.125} | DELTA,
    ),
    "epsilon": Call(accounting.epsilon, RUN | DELTA),
    "epsilon_curve": Call(
        lambda steps, **run: accounting.epsilon_curve(steps=[1, steps], **run),
        RUN | DELTA,
    ),
    "delta": Call(accounting.delta, RUN | {"epsilon": 0.5}),
    "all_epsilons": Call(accounting.all_epsilons, RUN | DELTA),
    "noise_multiplier": Call(
        lambda before, **terms: accounting.noise_multiplier(
            before=[replace(STEP, steps=before)], **terms
        ),
        CALIBRATED | {"sample_rate": 1 / 16, "steps": 100, "before": 100},
    ),
    "noise_scale": Call(
        lambda steps, noise_multiplier, **terms: accounting.noise_scale(
            phases=[Phase(1 / 16, noise_multiplier, steps)], **terms
        ),
        CALIBRATED | {"steps": 100, "noise_multiplier": 1.5},
    ),
    "steps": Call(
        accounting.steps,
        CALIBRATED | {"sample_rate": 1 / 16, "noise_multiplier": 1.5, "most": 120},
    ),
    "sample_rate": Call(
        accounting.sample_rate, CALIBRATED | {"noise_multiplier": 1.5, "steps": 100}
    ),
    "fixed_size_epsilon": Call(accounting.fixed_size_epsilon, RUN | DELTA),
    "truncated_poisson": Call(
        truncated,
        RUN | SIZES | DELTA | {"steps": 30} | {"false_positive_rates": 0.125},
    ),
    "truncated_poisson_noise_multiplier": Call(
        accounting.truncated_poisson_noise_multiplier,
        {"target_epsilon": 4.0, "sample_rate": 1 / 16, "steps": 30} | SIZES | DELTA,
    ),
    "gaussian_delta": Call(
        accounting.gaussian_delta, {"epsilon": 0.5, "noise_multiplier": 3, "steps": 2}
    ),
    "gaussian_epsilon": Call(
        accounting.gaussian_epsilon, DELTA | {"noise_multiplier": 3, "steps": 2}
    ),
    "gaussian_noise_multiplier": Call(
        accounting.gaussian_noise_multiplier, DELTA | {"epsilon": 1.5, "steps": 2}
    ),
    "best_of_trials": Call(
        lambda **terms: accounting.best_of_trials(CURVE, **terms),
        {"mean_trials": 4.5, "shape": 1.5},
    ),
    "best_of_pure_trials": Call(
        accounting.best_of_pure_trials, {"epsilon": 0.5, "shape": 1.5}
    ),
    "padded_selection": Call(
        lambda **terms: accounting.padded_selection(CURVE, **terms),
        {"mean_trials": 4.5, **DELTA},
    ),
    "round_up": Call(accounting.round_up, {"epsilon": 1.40625, "digits": 3}),
    "audit": Call(audited, {"delta": 2.0**-13, "confidence": 0.9375}),
    "Bounds": Call(regression.Bounds, {"x_bound": 0.75, "y_bound": 2}),
    "Preprocessing": Call(
        preprocessed, {"feature_ranges": 1.5, "x_bound": 0.25, "y_bound": 0.5}
    ),
    "ssp": Call(
        lambda **terms: released(regression.ssp, **terms), PRICE | {"ridge": 0.5}
    ),
    "adassp": Call(
        lambda **terms: released(regression.adassp, **terms),
        PRICE | {"ridge_factor": 1.5},
    ),
    "noisy_gradient_descent": Call(
        lambda **terms: released(regression.noisy_gradient_descent, **terms),
        {"noise_multiplier": 60, "target_epsilon": 0.5, "delta": 2.0**-13, "y_bound": 2}
        | {"learning_rate": 0.25, "x_bound": 0.75, "repetitions": 2, "keep_every": 3},
    ),
    "released rate": Call(
        lambda **terms: released(
            regression.noisy_gradient_descent, learning_rate="released", **terms
        ),
        {
            "noise_multiplier": 60,
            "target_epsilon": 0.5,
            "delta": 2.0**-13,
            "y_bound": 2,
        },
    ),
    "public rate": Call(
        lambda **terms: released(regression.noisy_gradient_descent, **terms),
        {"steps": 5, "target_epsilon": 0.5, "delta": 2.0**-13, "y_bound": 2}
        | {"public_size": 5},
    ),
    "compare": Call(
        lambda epsilons, **terms: released(
            regression.compare, epsilons=[epsilons], **terms
        ),
        {"epsilons": 1 / 16, "delta": 2.0**-14, "y_bound": 2, "x_bound": 0.75}
        | {"repetitions": 2, "learning_rate": 0.25},
    ),
}
#: Public names whose numbers are those of a call with another name, or of an answer.
ELSEWHERE = {
    "Accountant": "ACCOUNTANTS",
    "ToeplitzStrategy": "banded_strategy",
    "TreeStrategy": "banded_strategy",
    "cyclic_poisson": "banded_strategy",
    "delta_interval": "questions",
    "chained_epsilon": "group_epsilon",
    "DiscreteGaussianMechanism": "Odometer.add",
    "EpsilonDelta": "Odometer.add",
    "FixedSizeSteps": "Odometer.add_fixed_size",
    "LaplaceMechanism": "Odometer.add",
    "RandomizedResponse": "Odometer.add",
    "from_dp_event": "Odometer.add",
    "to_dp_event": "Odometer.add",
    "epsilons": "epsilon",
    "fixed_size_interval": "fixed_size_epsilon",
    "fixed_slots": "banded_strategy",
    "group_delta_interval": "group_epsilon",
    "geometric_strategy": "banded_strategy",
    "group_epsilon_interval": "group_epsilon",
    "momentum_workload": "banded_strategy",
    "square_root_strategy": "banded_strategy",
    "random_allocation_interval": "random_allocation_epsilon",
    "trade_off_intervals": "questions",
    "trade_off": "questions",
    "truncated_poisson_epsilon": "truncated_poisson",
    "truncated_poisson_trade_off": "truncated_poisson",
}
#: Names of the product for arguments of the functions above.
FIELDS = {"asked": "steps", "before": "steps", "query": "noise_multiplier"}
FIELDS |= {"steps_within": "epsilon"}
ANSWERS = {"Answer", "Interval", "PaddedSelection"}
NO_NUMBERS_ASKED = {"NAMES", "SAMPLINGS", "NeighboringRelation"}


def test_every_public_name_is_called():
    public = {*accounting.__all__, *regression.__all__}
    assert public <= {*CALLS, *ELSEWHERE, *ANSWERS, *NO_NUMBERS_ASKED}


def digits(value):
    """Return an answer as text with all digits, and all types of its numbers."""
    if is_dataclass(value):
        inside = {x.name: digits(getattr(value, x.name)) for x in fields(value)}
        return type(value).__name__, inside
    if isinstance(value, dict):
        return {name: digits(x) for name, x in value.items()}
    if isinstance(value, list | tuple):
        return [digits(x) for x in value]
    if isinstance(value, np.ndarray):
        return [str(value.dtype), digits(value.tolist())]
    return type(value).__name__, repr(value)


def as_whole(number):
    return isinstance(number, int)


@cache
def plain(name):
    """Return the digits of a call with plain numbers."""
    return digits(CALLS[name].function(**CALLS[name].numbers))


#: Calls that take seconds, so that fewer draws of kinds are tried.
SLOW = {
    "Plan.create",
    "Odometer.add_fixed_size",
    "truncated_poisson",
    "truncated_poisson_noise_multiplier",
    "random_allocation_noise_multiplier",
    "audit",
}
DRAWN = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


@pytest.mark.parametrize("name", [name for name in CALLS if name not in SLOW])
@settings(DRAWN, max_examples=6)
@given(data=st.data())
def test_every_kind_of_scalar_gives_the_digits_of_plain_numbers(name, data):
    check_digits(name, data)


@pytest.mark.parametrize("name", sorted(SLOW))
@settings(DRAWN, max_examples=2)
@given(data=st.data())
def test_so_it_is_in_slow_calls(name, data):
    check_digits(name, data)


def check_digits(name, data):
    call = CALLS[name]
    kinds = {
        argument: data.draw(st.sampled_from(WHOLE if as_whole(number) else REAL))
        for argument, number in call.numbers.items()
    }
    given_so = {name: kinds[name](number) for name, number in call.numbers.items()}
    assert digits(call.function(**given_so)) == plain(name)


PAIRS = [(name, argument) for name, call in CALLS.items() for argument in call.numbers]


def reject(name, argument, value):
    """Check that the message names the argument and the rule, and can be read."""
    call = CALLS[name]
    with pytest.raises((AccountingError, ConfigError)) as caught:
        call.function(**{**call.numbers, argument: value})
    assert caught.value.field == FIELDS.get(argument, argument)
    message = str(caught.value)
    assert f"{caught.value.field} " in message
    assert " must be " in message
    assert len(message) < 500
    return message


@pytest.mark.parametrize(("name", "argument"), PAIRS)
def test_anything_but_a_real_scalar_is_rejected_by_name(name, argument):
    for value in [*NO_NUMBERS, *TOO_LARGE]:
        reject(name, argument, value)


@pytest.mark.parametrize(
    ("name", "argument"), [pair for pair in PAIRS if pair[1] in ALL_WHOLE]
)
def test_a_number_near_a_whole_one_is_not_whole(name, argument):
    for value in NOT_WHOLE:
        reject(name, argument, value)


@pytest.mark.parametrize("row", [np.array([1, 2]), torch.ones(2), [1, 2], (1, 2)])
def test_a_row_of_numbers_is_told_to_be_given_one_by_one(row):
    for argument in [*RUN, *DELTA]:
        message = reject("epsilon", argument, row)
        assert message.endswith("Pass one number per call.")


NO_ROWS = ["", "0", b"", b"ab", b"\0\1", bytearray(b"\0\1"), np.bytes_(b"\0")]
NO_ROWS += [
    np.void(b"ab"),
    np.zeros((), "i4, i4")[()],
    np.zeros((1, 1)),
    np.ones((), "V2"),
]
NO_ROWS += [{}, {0.5: 1}, {0.5}, torch.ones(1, 1), None]


@pytest.mark.parametrize("row", NO_ROWS, ids=repr)
def test_what_is_no_row_of_numbers_is_rejected_by_name(row):
    """Bytes are no rates, and a set or a table has no order of its numbers."""
    with pytest.raises(AccountingError, match="must be a list of numbers") as caught:
        accounting.trade_off(
            sample_rate=1 / 16,
            noise_multiplier=1.5,
            steps=120,
            false_positive_rates=row,
        )
    assert caught.value.field == "false_positive_rates"
    with pytest.raises(AccountingError, match="steps must be a list of numbers"):
        accounting.epsilon_curve(
            sample_rate=1 / 16, noise_multiplier=1.5, delta=1e-5, steps=row
        )


@pytest.mark.parametrize("kind", [list, tuple, np.array, torch.tensor, iter])
def test_rows_of_numbers_are_read_alike(kind):
    rates = [0.25, 0.5]
    given_so = accounting.trade_off(
        sample_rate=1 / 16,
        noise_multiplier=1.5,
        steps=120,
        false_positive_rates=kind(rates),
    )
    assert given_so == accounting.trade_off(
        sample_rate=1 / 16, noise_multiplier=1.5, steps=120, false_positive_rates=rates
    )


def test_masked_values_of_a_row_are_missing():
    masked = np.ma.array([100, 120], mask=[False, True])
    with pytest.raises(AccountingError, match="steps must be"):
        accounting.epsilon_curve(
            sample_rate=1 / 16, noise_multiplier=1.5, delta=1e-5, steps=masked
        )
    whole = np.ma.array([100, 120], mask=False)
    plain_curve = accounting.epsilon_curve(
        sample_rate=1 / 16, noise_multiplier=1.5, delta=1e-5, steps=[100, 120]
    )
    assert (
        accounting.epsilon_curve(
            sample_rate=1 / 16, noise_multiplier=1.5, delta=1e-5, steps=whole
        )
        == plain_curve
    )
    joined = np.array([True, False])
    with pytest.raises(AccountingError, match="scores must be numbers"):
        error_rates.Scores.of(masked, joined)
