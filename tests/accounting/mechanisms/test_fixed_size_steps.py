"""Batches of fixed size in an odometer, together with other mechanisms."""

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from dpsgd_explorer.accounting import (
    FixedSizeSteps,
    Odometer,
    RandomizedResponse,
    fixed_size_interval,
    to_dp_event,
)
from dpsgd_explorer.accounting.core.gaussian import deltas_of_mu
from dpsgd_explorer.accounting.rdp.fixed_size import fixed_size_rdp_epsilon
from dpsgd_explorer.errors import AccountingError

REPLACED = {"neighboring_relation": "replace_one"}


def of_fixed_size(*run):
    ledger = Odometer()
    ledger.add_fixed_size(*run)
    return ledger


@pytest.mark.parametrize(
    ("run", "delta"),
    [
        ((0.02, 1.5, 50), 1e-6),
        pytest.param(
            (256 / 60_000, 1.1, 14_062),
            1e-5,
            marks=pytest.mark.long("every combination"),
        ),
        ((0.3, 2.0, 1), 1e-5),
        ((1.0, 4.0, 10), 1e-5),
    ],
)
def test_alone_they_cost_what_the_function_of_fixed_sizes_says(run, delta):
    names = dict(zip(("sample_rate", "noise_multiplier", "steps"), run, strict=True))
    expected = fixed_size_interval(**names, delta=delta)
    spent = of_fixed_size(*run).epsilon_interval(delta, **REPLACED)
    assert spent.lower == pytest.approx(expected.lower, rel=1e-4)
    assert spent.upper == pytest.approx(expected.upper, rel=1e-4)
    assert spent.status == expected.status


def reached(epsilon, q, noise, mu):
    """δ of one step with opposite gradients and of a Gaussian query, by an integral."""

    def density(x):
        return (1 - q) * norm.pdf(x, 0, noise) + q * norm.pdf(x, 2, noise)

    def at(x):
        loss = math.log(density(x) / norm.pdf(x, 0, noise))
        return density(x) * float(deltas_of_mu(np.array([epsilon - loss]), mu)[0])

    ends = (-12 * noise, 2 + 12 * noise)
    return quad(at, *ends, epsabs=1e-14, epsrel=1e-10, limit=500)[0]


@pytest.mark.parametrize(
    ("q", "noise", "query"), [(0.1, 1.0, 6.0), (0.3, 2.0, 1.0), (0.02, 1.5, 6.0)]
)
def test_one_step_and_a_query_cost_what_opposite_gradients_reach(q, noise, query):
    ledger = of_fixed_size(q, noise, 1)
    ledger.add_gaussian(query)
    for epsilon in (0.2, 1.0):
        spent = ledger.delta_interval(epsilon, **REPLACED)
        true = reached(epsilon, q, noise, 2 / query)
        assert spent.lower <= true * (1 + 1e-6)
        assert true * (1 - 1e-6) <= spent.upper
        assert spent.lower == pytest.approx(true, rel=5e-3)


def test_every_part_of_a_ledger_adds_to_both_bounds():
    ledger = of_fixed_size(0.02, 1.5, 50)
    before = ledger.epsilon_interval(1e-6, **REPLACED)
    for add in (
        lambda: ledger.add_dp_sgd(0.02, 1.5, 50),
        lambda: ledger.add_fixed_size(0.01, 2.0, 30),
    ):
        add()
        both = ledger.epsilon_interval(1e-6, **REPLACED)
        assert before.lower < both.lower <= both.upper
        assert before.upper < both.upper < 1.04 * both.lower
        before = both


def test_steps_with_equal_settings_are_one_entry():
    ledger = Odometer()
    for _ in range(50):
        ledger.add_fixed_size(0.02, 1.5, 1)
    assert ledger.entries == of_fixed_size(0.02, 1.5, 50).entries
    assert repr(ledger) == "Odometer(entries=1, steps=50)"
    ledger.add_fixed_size(0.02, 1.6, 1)
    ledger.add_fixed_size(0.02, 1.6, 1, label="other")
    ledger.add(RandomizedResponse(0.5, 4))
    assert len(ledger.entries) == 4
    again = Odometer.from_json(ledger.to_json())
    assert again.entries == ledger.entries
    assert isinstance(again.entries[0].mechanism, FixedSizeSteps)


def test_a_record_that_is_added_has_no_bound():
    ledger = of_fixed_size(0.02, 1.5, 50)
    for ask in (
        lambda: ledger.epsilon(1e-5),
        lambda: ledger.delta(1.0),
        lambda: ledger.trade_off(0.1),
        ledger.privacy_loss_distribution,
    ):
        with pytest.raises(AccountingError, match="must be 'replace_one'") as raised:
            ask()
        assert raised.value.field == "neighboring_relation"
    with pytest.raises(AccountingError, match="must be 'exact'"):
        ledger.epsilon(1e-5, "rdp", "replace_one")
    with pytest.raises(AccountingError, match="no exact event"):
        to_dp_event(ledger)


def test_steps_beyond_every_grid_have_the_bound_of_renyi():
    run = (0.001, 2.0, 60_000)
    spent = of_fixed_size(*run).epsilon_interval(1e-5, **REPLACED)
    assert spent.status == "bound"
    assert spent.upper == pytest.approx(fixed_size_rdp_epsilon(*run, 1e-5))
    assert 0 < spent.lower < spent.upper
    without_noise = of_fixed_size(0.001, 0.0, 5).epsilon(1e-5, **REPLACED)
    assert without_noise == math.inf


@pytest.mark.parametrize(
    ("run", "field"),
    [
        ((0.0, 1.0, 5), "sample_rate"),
        ((0.1, -1.0, 5), "noise_multiplier"),
        ((0.1, 1.0, 0), "steps"),
        ((0.1, 1.0, 2.5), "steps"),
    ],
)
def test_settings_outside_their_domain_are_refused(run, field):
    with pytest.raises(AccountingError) as raised:
        of_fixed_size(*run)
    assert raised.value.field == field
