"""What every accountant of the table must do: a new line there is tested here."""

import math

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from dpsgd_explorer.accounting import (
    ACCOUNTANTS,
    Phase,
    delta,
    epsilon,
    epsilon_curve,
    gaussian_epsilon,
    noise_multiplier,
    steps,
)
from dpsgd_explorer.accounting.core.validation import MAX_NOISE_MULTIPLIER
from tests.accounting.curves import arrays
from tests.accounting.runs import PROPERTY, runs

NOISE_OF_ROUNDING = 1 + 1e-10
FACTORS = st.floats(1.0, 3.0)

TWO_SIDED = {"exact", "glw"}

every_accountant = pytest.mark.parametrize("name", ACCOUNTANTS)
every_bound = pytest.mark.parametrize(
    "name", [n for n, way in ACCOUNTANTS.items() if way.status != "approximation"]
)


def least(name, q, sigma, t, at_delta):
    """Return what epsilon cannot be below, as far as the accountant knows."""
    return least_of(name, [Phase(q, sigma, t)], at_delta)


def least_of(name, phases, at_delta):
    total = sum(phase.steps for phase in phases)
    if name not in TWO_SIDED:
        return ACCOUNTANTS[name].epsilons(phases, [total], at_delta)[0]
    return arrays(ACCOUNTANTS["exact"].bounds(phases, [total], at_delta)).lower[0]


def asked(name, q):
    """Return this sample rate, or 1 if the accountant knows no sampling."""
    return 1.0 if ACCOUNTANTS[name].why_not([Phase(q, 1.0, 1)]) else q


def run_of(name, run):
    """Return the run at a sample rate that the accountant knows."""
    return (asked(name, run[0]), *run[1:])


def tight(name, q, sigma, t, at_delta):
    """Tell whether a search, which makes haste, gets the accountant's best answer."""
    last = ACCOUNTANTS[name].searchers("add_or_remove_one")[-1]
    hasty = last.epsilons([Phase(q, sigma, t)], [t], at_delta)[0]
    return hasty <= epsilon(
        sample_rate=q, noise_multiplier=sigma, steps=t, delta=at_delta, accountant=name
    ) * (1 + 1e-6)


@every_accountant
def test_it_says_what_it_is_worth(name):
    accountant = ACCOUNTANTS[name]
    assert accountant.status in {"exact", "bound", "approximation"}
    assert accountant.name == name


@every_accountant
@PROPERTY
@given(runs(), FACTORS)
def test_epsilon_falls_with_noise_and_delta(name, run, factor):
    q, sigma, t, at_delta = run_of(name, run)
    here = (
        epsilon(
            sample_rate=q,
            noise_multiplier=sigma,
            steps=t,
            delta=at_delta,
            accountant=name,
        )
        * NOISE_OF_ROUNDING
    )
    assert least(name, q, sigma * factor, t, at_delta) <= here
    assert least(name, q, sigma, t, at_delta * factor) <= here


@every_accountant
@PROPERTY
@given(runs(), FACTORS)
def test_epsilon_rises_with_sample_rate_and_steps(name, run, factor):
    q, sigma, t, at_delta = run_of(name, run)
    here = least(name, q, sigma, t, at_delta) / NOISE_OF_ROUNDING
    assert (
        epsilon(
            sample_rate=min(q * factor, 1.0),
            noise_multiplier=sigma,
            steps=t,
            delta=at_delta,
            accountant=name,
        )
        >= here
    )
    assert (
        epsilon(
            sample_rate=q,
            noise_multiplier=sigma,
            steps=math.ceil(t * factor),
            delta=at_delta,
            accountant=name,
        )
        >= here
    )


@every_bound
@PROPERTY
@given(runs())
def test_a_bound_is_never_below_one_exact_step(name, run):
    # One step, "remove": δ(ε) = q δ_Gaussian(ε') with e^ε = 1 + q (e^ε' - 1); more
    # steps tell no less.
    q, sigma, t, at_delta = run_of(name, run)
    inner = (
        gaussian_epsilon(delta=at_delta / q, noise_multiplier=sigma)
        if at_delta < q
        else 0.0
    )
    least = math.log1p(q * math.expm1(inner))
    assert (
        epsilon(
            sample_rate=q,
            noise_multiplier=sigma,
            steps=t,
            delta=at_delta,
            accountant=name,
        )
        * NOISE_OF_ROUNDING
        >= least
    )


@every_bound
def test_a_bound_is_never_below_the_exact_golden_value(name, golden):
    for label, run in golden["settings"].items():
        if ACCOUNTANTS[name].why_not([Phase(run["q"], run["sigma"], 1)]):
            continue
        ours = epsilon(
            sample_rate=run["q"],
            noise_multiplier=run["sigma"],
            steps=run["steps"],
            delta=run["delta"],
            accountant=name,
        )
        assert ours * (1 + 1e-6) >= run["eps"], label


@every_accountant
@PROPERTY
@given(runs())
def test_delta_and_epsilon_invert_each_other(name, run):
    q, sigma, t, at_delta = run_of(name, run)
    spent = epsilon(
        sample_rate=q, noise_multiplier=sigma, steps=t, delta=at_delta, accountant=name
    )
    if 0 < spent < math.inf:
        above = spent * (1 + 1e-6)  # both answers are limits, as close as that
        back = delta(
            sample_rate=q,
            noise_multiplier=sigma,
            steps=t,
            epsilon=above,
            accountant=name,
        )
        if least(name, q, sigma, t, at_delta) < spent * (1 - 1e-6):
            assume(False)  # two bounds, of which neither inverts the other
        assert back <= at_delta * (1 + 1e-6)
        assert epsilon(
            sample_rate=q, noise_multiplier=sigma, steps=t, delta=back, accountant=name
        ) <= above * (1 + 1e-6)


@every_accountant
@PROPERTY
@given(runs(), st.integers(0, 10**6))
def test_a_run_in_two_parts_is_the_same_run(name, run, first):
    q, sigma, t, at_delta = run_of(name, run)
    first = min(first, t)
    parts = [Phase(q, sigma, first), Phase(q, sigma, t - first)]
    composed = ACCOUNTANTS[name].epsilons(parts, [t], at_delta)[0]
    assert composed == pytest.approx(
        epsilon(
            sample_rate=q,
            noise_multiplier=sigma,
            steps=t,
            delta=at_delta,
            accountant=name,
        ),
        rel=1e-4,
    )


@every_accountant
@PROPERTY
@given(runs(), runs())
def test_a_second_phase_adds_and_the_order_does_not_matter(name, one, two):
    at_delta = one[3]
    one, two = run_of(name, one), run_of(name, two)
    a, b = Phase(*one[:3]), Phase(*two[:3])
    total = a.steps + b.steps
    after_a, both = ACCOUNTANTS[name].epsilons([a, b], [a.steps, total], at_delta)
    swapped = ACCOUNTANTS[name].epsilons([b, a], [total], at_delta)[0]
    assert after_a >= least(name, *one) / NOISE_OF_ROUNDING
    assert both >= least(name, *one) / NOISE_OF_ROUNDING
    assert both >= least(name, *two[:3], at_delta) / NOISE_OF_ROUNDING
    assert least_of(name, [a, b], at_delta) <= swapped * NOISE_OF_ROUNDING
    assert least_of(name, [b, a], at_delta) <= both * NOISE_OF_ROUNDING


@every_accountant
def test_a_curve_is_the_values_at_its_points_in_the_order_asked(name):
    points, q = [500, 0, 1, 10_000], asked(name, 0.01)
    curve = epsilon_curve(
        sample_rate=q, noise_multiplier=1.1, delta=1e-5, steps=points, accountant=name
    )
    alone = [
        epsilon(
            sample_rate=q, noise_multiplier=1.1, steps=t, delta=1e-5, accountant=name
        )
        for t in points
    ]
    assert curve == pytest.approx(alone, rel=1e-7)
    assert curve[1] == 0
    assert (
        epsilon_curve(
            sample_rate=q, noise_multiplier=1.1, delta=1e-5, steps=[], accountant=name
        )
        == []
    )


@every_accountant
def test_nothing_done_spends_nothing_and_no_noise_spends_everything(name):
    q = asked(name, 0.01)
    assert (
        epsilon(
            sample_rate=q, noise_multiplier=1.0, steps=0, delta=1e-5, accountant=name
        )
        == 0
    )
    assert (
        epsilon(
            sample_rate=q, noise_multiplier=0.0, steps=0, delta=1e-5, accountant=name
        )
        == 0
    )
    assert (
        delta(
            sample_rate=q, noise_multiplier=1.0, steps=0, epsilon=1.0, accountant=name
        )
        == 0
    )
    assert (
        epsilon(
            sample_rate=q, noise_multiplier=0.0, steps=1, delta=1e-5, accountant=name
        )
        == math.inf
    )
    assert (
        delta(
            sample_rate=q, noise_multiplier=0.0, steps=1, epsilon=1.0, accountant=name
        )
        == 1
    )
    mixed = [Phase(q, 1.0, 5), Phase(q, 0.0, 5)]
    assert math.isfinite(ACCOUNTANTS[name].epsilons(mixed, [5], 1e-5)[0])
    assert ACCOUNTANTS[name].epsilons(mixed, [6], 1e-5)[0] == math.inf
    assert (
        steps(
            target_epsilon=1.0,
            sample_rate=q,
            noise_multiplier=0.0,
            delta=1e-5,
            accountant=name,
        )
        == 0
    )


@every_accountant
@settings(PROPERTY, max_examples=15)
@example((3.3464481723376685e-06, 1.0, 371, 1.759800606322358e-13), 1.03)
@given(runs(), st.floats(math.log(0.05), math.log(50)))
def test_noise_meets_its_target_and_a_thousandth_less_does_not(name, run, log_target):
    q, _, t, at_delta = run_of(name, run)
    target = math.exp(log_target)
    nearest = epsilon(
        sample_rate=asked(name, 0.5),
        noise_multiplier=MAX_NOISE_MULTIPLIER,
        steps=1,
        delta=at_delta,
        accountant=name,
    )
    assume(target > 1.01 * nearest)
    noise = noise_multiplier(
        target_epsilon=target, sample_rate=q, steps=t, delta=at_delta, accountant=name
    )
    assert (
        epsilon(
            sample_rate=q,
            noise_multiplier=noise,
            steps=t,
            delta=at_delta,
            accountant=name,
        )
        <= target
    )
    assume(tight(name, q, noise, t, at_delta))
    assume(tight(name, q, 0.999 * noise, t, at_delta))
    assume(noise > 1.01 / MAX_NOISE_MULTIPLIER)  # below it, any noise is enough
    assert (
        epsilon(
            sample_rate=q,
            noise_multiplier=0.999 * noise,
            steps=t,
            delta=at_delta,
            accountant=name,
        )
        > target
    )


@every_accountant
@settings(PROPERTY, max_examples=15)
@given(runs(), st.floats(math.log(0.05), math.log(50)))
def test_steps_are_the_most_that_stay_within_the_target(name, run, log_target):
    q, sigma, _, at_delta = run_of(name, run)
    target = math.exp(log_target)
    most = steps(
        target_epsilon=target,
        sample_rate=q,
        noise_multiplier=sigma,
        delta=at_delta,
        accountant=name,
    )
    assert (
        epsilon(
            sample_rate=q,
            noise_multiplier=sigma,
            steps=most,
            delta=at_delta,
            accountant=name,
        )
        <= target
    )
    if most < 10**9 and tight(name, q, sigma, most + 1, at_delta):
        assert (
            epsilon(
                sample_rate=q,
                noise_multiplier=sigma,
                steps=most + 1,
                delta=at_delta,
                accountant=name,
            )
            > target
        )


@every_accountant
@pytest.mark.parametrize(
    ("q", "sigma", "t", "at_delta"),
    [
        (1e-300, 1e12, 10**9, 1e-300),
        (1.0, 1e-12, 10**9, 1e-300),
        (1 - 1e-16, 0.05, 10**9, 0.999),
        (1e-300, 1e-12, 1, 0.5),
    ],
)
def test_the_corners_of_the_domain_give_a_number(name, q, sigma, t, at_delta):
    q = asked(name, q)
    assert (
        epsilon(
            sample_rate=q,
            noise_multiplier=sigma,
            steps=t,
            delta=at_delta,
            accountant=name,
        )
        >= 0
    )
    assert (
        0
        <= delta(
            sample_rate=q, noise_multiplier=sigma, steps=t, epsilon=1.0, accountant=name
        )
        <= 1
    )
