"""One step, with a replaced record and with numbers at the ends of their domains."""

import math

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsgd_explorer.accounting import (
    ACCOUNTANTS,
    Phase,
    delta,
    epsilon,
    noise_multiplier,
)
from dpsgd_explorer.accounting.core.neighboring_relation import ADD_OR_REMOVE_ONE
from dpsgd_explorer.accounting.exact.single_step import single_step_delta
from dpsgd_explorer.accounting.exact.subsampled_gaussian import SubsampledGaussianLoss
from dpsgd_explorer.accounting.queries import epsilon_interval, epsilon_intervals
from dpsgd_explorer.errors import AccountingError
from tests.accounting.curves import arrays
from tests.in_order import in_order

REPLACED = ("exact", "replace_one")


def replaced(q, sigma, loss):
    """δ of one step with a replaced record, by its definition, with 60 digits."""
    with mp.workdps(60):
        q, sigma, gain = mp.mpf(q), mp.mpf(sigma), mp.expm1(mp.mpf(loss))
        half = (1 - q) * gain / 2
        root = mp.sqrt(half**2 + (1 + gain) * q**2 * mp.exp(-(sigma**-2)))
        z = sigma * mp.log((half + root) / q) + 1 / (2 * sigma)
        apart = mp.ncdf(1 / sigma - z) - (1 + gain) * mp.ncdf(-1 / sigma - z)
        return q * apart - gain * (1 - q) * mp.ncdf(-z)


@settings(deadline=None, derandomize=True, max_examples=150)
@given(
    st.floats(-9, -0.001).map(lambda x: 10**x),
    st.floats(-1.9, 2).map(lambda x: 10**x),
    st.floats(0, 1),
)
def test_a_replaced_record_costs_what_its_definition_says(q, sigma, share):
    loss = share * (2 / sigma + 0.5 / sigma**2 + 30 / sigma)
    truth = replaced(q, sigma, loss)
    found = SubsampledGaussianLoss(q, sigma, "replace").deltas(np.array([loss, -loss]))
    if truth > 1e-100:
        assert found[0] == pytest.approx(float(truth), rel=1e-9)
    mirrored = -math.expm1(-loss) + math.exp(-loss) * found[0]
    assert found[1] == pytest.approx(mirrored, rel=1e-12)


@pytest.mark.parametrize("sigma", [0.05, 0.0367, 0.03, 0.01, 1e-3])
def test_a_replaced_record_is_accounted_with_little_noise(sigma):
    spent = in_order(epsilon, 0.01, sigma, 1, 1e-5, *REPLACED)
    tight = replaced(0.01, sigma, spent * (1 - 1e-8))
    assert replaced(0.01, sigma, spent) <= 1e-5 * (1 + 1e-9) < tight
    assert spent < in_order(epsilon, 0.01, sigma, 2, 1e-5, *REPLACED) < math.inf


def test_noise_for_a_replaced_record_is_found_from_below():
    noise = in_order(noise_multiplier, 60.0, 0.001, 10, 1e-5, *REPLACED)
    assert in_order(epsilon, 0.001, noise, 10, 1e-5, *REPLACED) <= 60
    assert in_order(epsilon, 0.001, noise * (1 - 1e-3), 10, 1e-5, *REPLACED) > 60


@pytest.mark.parametrize("relation", ["add_or_remove_one", "replace_one"])
def test_the_bounds_beyond_the_integrals_begin_where_these_end(relation):
    terms = (100, 1e-5, "exact", relation)
    inside, outside = (
        in_order(epsilon, 0.01, sigma, *terms) for sigma in (0.1, 0.0999)
    )
    renyi = epsilon(
        sample_rate=0.01,
        noise_multiplier=0.1,
        steps=100,
        delta=1e-5,
        accountant="rdp",
        neighboring_relation=relation,
    )
    assert inside < outside <= 1.005 * renyi
    full = in_order(epsilon, 1.0, 0.5, *terms)
    assert in_order(epsilon, 1 - 1e-9, 0.5, *terms) <= full
    assert delta(
        sample_rate=1 - 1e-9,
        noise_multiplier=0.5,
        steps=100,
        epsilon=96.0,
        accountant="exact",
        neighboring_relation=relation,
    ) <= delta(
        sample_rate=1.0,
        noise_multiplier=0.5,
        steps=100,
        epsilon=96.0,
        accountant="exact",
        neighboring_relation=relation,
    )


# At δ = 1e-100 a transform's round-off was taken for probability: 1.2997 "at least".
@pytest.mark.parametrize("slack", [1e-15, 1e-30, 1e-60, 1e-100])
def test_no_lower_side_is_above_what_the_steps_spend_added_up(slack):
    q, sigma, steps = 1e-5, 2.2351457416453653, 10
    sides = epsilon_interval([Phase(q, sigma, steps)], slack, *REPLACED)
    assert sides.lower <= sides.upper
    assert sides.lower <= steps * in_order(
        epsilon, q, sigma, 1, slack / steps, *REPLACED
    )


@pytest.mark.parametrize("relation", ["add_or_remove_one", "replace_one"])
@pytest.mark.parametrize("sigma", [1.0, 0.05])
def test_a_curve_goes_on_into_steps_without_noise(relation, sigma):
    run = [Phase(0.1, sigma, 10), Phase(0.1, 0.0, 5)]
    before, after = arrays(
        epsilon_intervals(run, [5, 12], 1e-5, "exact", relation)
    ).values
    assert before == epsilon(
        sample_rate=0.1,
        noise_multiplier=sigma,
        steps=5,
        delta=1e-5,
        accountant="exact",
        neighboring_relation=relation,
    )
    assert after == math.inf


@pytest.mark.parametrize("loss", [650.0, 690.0, 699.0, 701.0])
def test_large_losses_of_tiny_samples_keep_their_delta(loss):
    q, sigma = 1e-9, 0.02
    with mp.workdps(60):
        inner = mp.log1p(mp.expm1(loss) / q)
        near = mp.ncdf(1 / (2 * mp.mpf(sigma)) - inner * sigma)
        far = mp.exp(inner) * mp.ncdf(-1 / (2 * mp.mpf(sigma)) - inner * sigma)
        truth = float(q * (near - far))
    found = SubsampledGaussianLoss(q, sigma, "remove").deltas(np.array([loss]))[0]
    alone = single_step_delta(q, sigma, loss, ADD_OR_REMOVE_ONE)
    assert [found, alone] == pytest.approx([truth, truth], rel=1e-9)


@pytest.mark.parametrize("name", ["exact", "gdp", "rdp", "moments", "zcdp", "basic"])
@pytest.mark.parametrize(
    ("field", "run"),
    [
        ("noise_multiplier", (1.0, 1e-200, 1, 1e-5)),
        ("noise_multiplier", (1.0, 5e-324, 1, 1e-5)),
        ("sample_rate", (5e-324, 1.0, 1, 1e-5)),
        ("delta", (1.0, 1.0, 1, 5e-324)),
    ],
)
def test_numbers_whose_inverse_is_no_float_are_refused(name, field, run):
    with pytest.raises(AccountingError, match=f"{field} must be .*at least") as caught:
        in_order(epsilon, *run, name)
    assert caught.value.field == field


@pytest.mark.parametrize("name", sorted(ACCOUNTANTS))
@pytest.mark.parametrize("sigma", [1e-100, 1e-5, 1e12])
@pytest.mark.parametrize("slack", [1e-300, 1e-5, 1 - 1e-12])
@pytest.mark.parametrize("steps", [1, 10**6])
def test_the_least_and_largest_numbers_that_are_accepted_have_an_answer(
    name, sigma, slack, steps
):
    spent = epsilon(
        sample_rate=1.0,
        noise_multiplier=sigma,
        steps=steps,
        delta=slack,
        accountant=name,
    )
    assert spent >= 0
    assert (
        0
        <= delta(
            sample_rate=1.0,
            noise_multiplier=sigma,
            steps=steps,
            epsilon=min(spent, 1e100),
            accountant=name,
        )
        <= 1
    )


@pytest.mark.parametrize("name", sorted(ACCOUNTANTS))
@pytest.mark.parametrize("loss", [1e3, 1e100, 1e300])
def test_delta_at_any_epsilon_is_a_probability(name, loss):
    assert (
        0
        <= delta(
            sample_rate=1.0,
            noise_multiplier=1e6,
            steps=3,
            epsilon=loss,
            accountant=name,
        )
        <= 1
    )


def test_a_target_that_is_hardly_a_float_is_refused():
    with pytest.raises(AccountingError, match="target_epsilon must be at least"):
        noise_multiplier(target_epsilon=5e-324, sample_rate=0.1, steps=1, delta=1e-5)


@pytest.mark.parametrize("relation", ["add_or_remove_one", "replace_one"])
def test_beyond_the_integrals_reach_one_step_bounds_all_from_below(relation):
    """The lower side was 0 where noise is just too little for the integrals."""
    within, beyond = (
        epsilon_interval([Phase(0.01, noise, 100)], 1e-5, "exact", relation)
        for noise in (0.1, 0.0999)
    )
    [one] = [epsilon_interval([Phase(0.01, 0.0999, 1)], 1e-5, "exact", relation)]
    assert 0 < one.lower <= beyond.lower <= beyond.upper
    assert beyond.status == "bound"
    assert beyond.lower <= within.upper * 1.01
