"""Batches that are cut: the noise for a target, and the attacker's curve."""

import numpy as np
import pytest

from dpsgd_explorer.accounting import (
    noise_multiplier,
    trade_off,
    truncated_poisson_epsilon,
    truncated_poisson_noise_multiplier,
    truncated_poisson_trade_off,
)
from dpsgd_explorer.accounting.exact.discretized_pld import DiscretizedPlds
from dpsgd_explorer.accounting.exact.pld_bounds import FFT_SIZES
from dpsgd_explorer.errors import AccountingError
from tests.accounting.curves import arrays

DATA = {"sample_size": 1000, "max_batch_size": 75}
ALARMS = [0.0, 0.001, 0.1, 0.5, 1.0]
RELATIONS = ["add_or_remove_one", "replace_one"]


@pytest.mark.parametrize("relation", RELATIONS)
def test_the_noise_for_a_target_keeps_it_and_hardly_less_does_not(relation):
    run, delta = (0.05, 100), 1e-5
    terms = DATA | {"neighboring_relation": relation}
    noise = truncated_poisson_noise_multiplier(2.0, *run, delta, **terms)

    def spent(sigma):
        return truncated_poisson_epsilon(0.05, sigma, 100, delta, **terms).value

    assert spent(noise) <= 2.0 < spent(noise * (1 - 1e-4))
    assert noise > noise_multiplier(2.0, *run, delta, "exact", relation)


def test_a_wide_cap_needs_the_noise_of_uncut_batches():
    for cap in (150, 1000, 5000):
        wide = DATA | {"max_batch_size": cap}
        noise = truncated_poisson_noise_multiplier(2.0, 0.05, 100, 1e-5, **wide)
        uncut = noise_multiplier(2.0, 0.05, 100, 1e-5)
        assert noise == pytest.approx(uncut, rel=1e-4)


def test_where_the_bound_jumps_the_noise_is_above_the_jump():
    data = {"sample_size": 1000, "max_batch_size": 600}
    noise = truncated_poisson_noise_multiplier(200.0, 0.5, 5, 1e-5, **data)
    assert noise == 0.2
    assert truncated_poisson_epsilon(0.5, noise, 5, 1e-5, **data).value <= 200
    with pytest.raises(AccountingError, match="max_batch_size"):
        truncated_poisson_epsilon(0.5, 0.1999, 5, 1e-5, **data)


def test_little_noise_may_be_enough_though_less_has_no_answer():
    noise = truncated_poisson_noise_multiplier(60.0, 0.05, 1, 1e-5, **DATA)
    found = truncated_poisson_epsilon(0.05, noise, 1, 1e-5, **DATA)
    assert found.value <= 60.0


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("cap", [50, 75])
def test_the_curve_lies_between_its_sides_and_above_the_uncut_one(cap, relation):
    run, terms = (0.05, 1.5, 100), {"sample_size": 1000, "max_batch_size": cap}
    asked = {"false_positive_rates": ALARMS, "neighboring_relation": relation}
    found = arrays(truncated_poisson_trade_off(*run, **asked, **terms))
    low, high = found.lower, found.upper
    uncut = np.array(trade_off(*run, **asked))
    assert np.all(low <= high)
    assert np.all(low <= uncut + 1e-9)
    assert np.all(high >= uncut - 5e-3)  # from fewer pairs of ε and δ
    for delta in (1e-5, 1e-2):
        loss = truncated_poisson_epsilon(
            *run, delta, neighboring_relation=relation, **terms
        ).value
        pair = np.minimum(np.exp(loss) * np.array(ALARMS) + delta, 1)
        assert np.all(low <= pair + 1e-9)


def test_the_ends_of_a_curve():
    asked = {"false_positive_rates": ALARMS, **DATA}
    still = arrays(truncated_poisson_trade_off(0.05, 1.0, 0, **asked))
    assert still.lower.tolist() == ALARMS
    assert still.upper == pytest.approx(ALARMS, abs=1e-8)
    open_ = arrays(truncated_poisson_trade_off(0.05, 0.0, 5, **asked))
    assert open_.upper.tolist() == [1.0] * len(ALARMS)


def test_a_target_that_no_noise_reaches_is_refused():
    with pytest.raises(AccountingError, match="target_epsilon must be at least"):
        truncated_poisson_noise_multiplier(1e-12, 1.0, 10**6, 1e-15, **DATA)


# Each of 37 values of δ refined its discrete losses to the last: 2 to 6 seconds.
def test_a_curve_of_two_cut_batches_takes_no_fine_grids(monkeypatch):
    sizes = []
    original = DiscretizedPlds.__init__

    def counted(self, losses, window, points):
        sizes.append(points)
        original(self, losses, window, points)

    monkeypatch.setattr(DiscretizedPlds, "__init__", counted)
    few = {"sample_size": 26_130, "max_batch_size": 18}
    found = arrays(
        truncated_poisson_trade_off(3e-5, 0.42, 3, false_positive_rates=[0.01], **few)
    )
    assert found.lower[0] <= found.upper[0]
    assert FFT_SIZES[0] <= max(sizes) <= FFT_SIZES[1]
    assert sizes.count(FFT_SIZES[1]) <= 3  # of the curve from below
