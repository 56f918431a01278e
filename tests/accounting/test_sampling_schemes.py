"""Sampling schemes: the accountants that apply, sample rates and trade-off curves."""

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

from dpsgd_explorer.accounting import (
    ACCOUNTANTS,
    SAMPLINGS,
    all_epsilons,
    epsilon,
    fixed_size_epsilon,
    gaussian_epsilon,
    random_allocation_epsilon,
    sample_rate,
    trade_off,
)
from dpsgd_explorer.accounting.core.accountant import Phase
from dpsgd_explorer.accounting.trade_off_curves import trade_off_intervals
from dpsgd_explorer.errors import AccountingError
from tests.accounting.curves import arrays
from tests.in_order import in_order

RUN = (0.01, 4.0, 10_000, 1e-5)


def test_all_of_them_say_what_they_are_worth():
    answers = in_order(all_epsilons, *RUN)
    assert list(answers) == list(ACCOUNTANTS)
    assert answers.pop("zcdp").status == "does not apply"
    for name, answer in answers.items():
        assert answer.status == ACCOUNTANTS[name].status
        assert answer.epsilon == in_order(epsilon, *RUN, name)


def test_of_shuffled_batches_nobody_speaks_and_each_says_why():
    for answer in in_order(all_epsilons, *RUN, sampling="shuffled").values():
        assert (answer.status, answer.epsilon) == ("does not apply", None)
        assert "Chua et al. 2024" in answer.reason
        assert "Use 'random_allocation'" in answer.reason
        assert "at most the ε of one Gaussian step per epoch" in answer.reason


def test_random_allocation_has_an_answer_by_the_exact_accountant_alone():
    run = {"noise_multiplier": 2.0, "steps": 12, "delta": 1e-5}
    answers = all_epsilons(sample_rate=1 / 12, **run, sampling="random_allocation")
    exact = answers.pop("exact")
    assert exact.epsilon == random_allocation_epsilon(
        noise_multiplier=2.0, slots=12, epochs=1, delta=1e-5
    )
    assert all("random allocation" in one.reason for one in answers.values())
    with pytest.raises(AccountingError, match="such as 1/12"):
        all_epsilons(sample_rate=0.083, **run, sampling="random_allocation")
    replaced = all_epsilons(
        sample_rate=1 / 12,
        **run,
        sampling="random_allocation",
        neighboring_relation="replace_one",
    )
    assert all("no bound for a replaced" in one.reason for one in replaced.values())


def test_batches_of_fixed_size_have_an_exact_and_a_renyi_answer():
    told = in_order(
        all_epsilons, *RUN, sampling="fixed_size", neighboring_relation="replace_one"
    )
    assert {name for name, one in told.items() if one.epsilon} == {"exact", "rdp"}
    assert told["exact"].epsilon == in_order(fixed_size_epsilon, *RUN)
    assert told["exact"].epsilon < told["rdp"].epsilon < 1.3 * told["exact"].epsilon
    told = in_order(all_epsilons, *RUN, sampling="fixed_size")
    rule = "neighboring_relation must be 'replace_one'"
    assert all(one.reason.startswith(rule) for one in told.values())


def test_a_full_batch_is_every_record():
    told = in_order(all_epsilons, *RUN, sampling="full_batch")
    assert all("sample_rate must be 1" in one.reason for one in told.values())
    told = all_epsilons(
        sample_rate=1.0,
        noise_multiplier=10.0,
        steps=100,
        delta=1e-5,
        sampling="full_batch",
    )
    assert told["exact"].epsilon == gaussian_epsilon(
        delta=1e-5, noise_multiplier=10.0, steps=100
    )
    assert told["zcdp"].status == "bound"


def test_a_sampling_that_is_not_there_is_refused_by_what_is():
    with pytest.raises(AccountingError, match="'dealt'") as caught:
        in_order(all_epsilons, *RUN, sampling="dealt")
    assert all(name in str(caught.value) for name in SAMPLINGS)


@pytest.mark.parametrize("name", ["exact", "rdp", "gdp", "basic"])
def test_the_sample_rate_is_the_largest_that_keeps_the_target(name):
    most = sample_rate(
        target_epsilon=2.0,
        noise_multiplier=1.1,
        steps=14_062,
        delta=1e-5,
        accountant=name,
    )
    assert (
        epsilon(
            sample_rate=most,
            noise_multiplier=1.1,
            steps=14_062,
            delta=1e-5,
            accountant=name,
        )
        <= 2.0
    )
    assert (
        epsilon(
            sample_rate=1.001 * most,
            noise_multiplier=1.1,
            steps=14_062,
            delta=1e-5,
            accountant=name,
        )
        > 2.0
    )


def test_the_ends_of_the_sample_rate():
    assert (
        sample_rate(target_epsilon=1.0, noise_multiplier=1000.0, steps=1, delta=1e-5)
        == 1.0
    )
    for name in ("rdp", "exact"):
        with pytest.raises(AccountingError, match="any sample rate reaches"):
            sample_rate(
                target_epsilon=1e-12,
                noise_multiplier=0.5,
                steps=10**9,
                delta=1e-15,
                accountant=name,
            )


def test_the_trade_off_of_a_gaussian_is_that_of_two_normals():
    # TPR = Φ(μ - Φ⁻¹(1 - α)), tables of the normal distribution, μ = 1.
    alarms = [0.0013499, 0.0227501, 0.1586553, 0.5, 0.8413447]
    powers = [0.0227501, 0.1586553, 0.5, 0.8413447, 0.9772499]
    ours = trade_off(
        sample_rate=1.0, noise_multiplier=1.0, steps=1, false_positive_rates=alarms
    )
    assert all(a >= b - 1e-6 for a, b in zip(ours, powers, strict=True))
    assert ours == pytest.approx(powers, abs=4e-3)


@pytest.mark.parametrize("relation", ["add_or_remove_one", "replace_one"])
def test_the_best_test_of_one_gaussian_lies_between_the_sides(relation):
    alarms = np.linspace(0, 1, 101) ** 2
    mu = {"add_or_remove_one": 0.8, "replace_one": 1.6}[relation]
    found = arrays(
        trade_off_intervals([Phase(1.0, 1.25, 1)], alarms, "exact", relation)
    )
    powers = ndtr(mu - ndtri(1 - alarms))
    assert np.all(found.lower <= powers + 1e-12)
    assert np.all(powers <= np.array(found.upper) + 1e-12)
    assert np.all(np.subtract(found.upper, found.lower) < 5e-3)


def test_the_best_test_of_one_sampled_step_lies_between_the_sides():
    q, sigma, cut = 0.1, 0.9, np.linspace(-9, 10, 40_001)
    without, with_it = ndtr(cut), (1 - q) * ndtr(cut) + q * ndtr(cut - 1 / sigma)
    alarms = np.linspace(0, 1, 101) ** 2
    best = np.maximum(
        np.interp(alarms, 1 - without[::-1], 1 - with_it[::-1]),
        np.interp(alarms, with_it, without),
    )
    found = arrays(trade_off_intervals([Phase(q, sigma, 1)], alarms))
    assert np.all(found.lower <= best + 1e-6)
    assert np.all(best <= found.upper)
    assert np.all(np.subtract(found.upper, found.lower) < 0.01)


def test_an_approximation_encloses_no_test():
    [found] = trade_off_intervals([Phase(0.01, 1.1, 1000)], [0.1], "gdp")
    assert (found.lower, found.upper, found.status) == (None, None, "approximation")
    [found] = trade_off_intervals([Phase(0.01, 1.1, 1000)], [0.1], "rdp")
    assert found.lower is None


def test_the_ends_of_the_trade_off():
    alarms = [0.0, 0.25, 1.0]
    assert (
        trade_off(
            sample_rate=0.1, noise_multiplier=1.0, steps=0, false_positive_rates=alarms
        )
        == alarms
    )
    assert (
        trade_off(
            sample_rate=0.1, noise_multiplier=0.0, steps=1, false_positive_rates=alarms
        )
        == [1.0] * 3
    )
    with pytest.raises(AccountingError, match="from 0 to 1"):
        trade_off(
            sample_rate=0.1, noise_multiplier=1.0, steps=1, false_positive_rates=[1.5]
        )
