"""The accountants beside the exact one, against figures found independently."""

import math
from functools import reduce
from operator import getitem

import mpmath as mp
import numpy as np
import pytest

from dpsgd_explorer.accounting import (
    ACCOUNTANTS,
    Phase,
    epsilon,
    epsilon_curve,
)
from dpsgd_explorer.accounting.core.neighboring_relation import ADD_OR_REMOVE_ONE
from dpsgd_explorer.accounting.exact.single_step import single_step_epsilon
from dpsgd_explorer.accounting.theorems.composition_theorems import (
    SHARES,
    unequal_steps_epsilon,
)
from dpsgd_explorer.accounting.theorems.per_step_epsilon import step_epsilons
from dpsgd_explorer.accounting.theorems.randomized_response import (
    composed_epsilons,
    log_delta,
)
from dpsgd_explorer.errors import AccountingError


@pytest.fixture
def table(golden):
    return golden["composition_comparison"]


def ask(run, name):
    return epsilon(
        sample_rate=run["q"],
        noise_multiplier=run["sigma"],
        steps=run["steps"],
        delta=run["delta"],
        accountant=name,
    )


@pytest.mark.parametrize(
    ("name", "figure", "tolerance"),
    [
        ("basic", ["basic_composition"], 1e-10),
        ("advanced", ["advanced_drv_best_split", "eps"], 1e-5),
        ("optimal", ["kov_optimal_best_split", "eps"], 1e-4),
        ("moments", ["moments_accountant_lambda<=32", "eps"], 1e-10),
        ("gdp", ["gdp_clt"], 1e-10),
        ("glw", ["exact_pld_limit", "eps"], 1e-7),
        ("basic", ["fullbatch", "basic"], 1e-10),
        ("advanced", ["fullbatch", "advanced_drv_best_split"], 1e-4),
        ("optimal", ["fullbatch", "kov_optimal_best_split"], 1e-4),
        ("zcdp", ["fullbatch", "zcdp_improved"], 1e-10),
        ("gdp", ["fullbatch", "exact_gdp"], 1e-10),
    ],
)
def test_the_composition_comparison(table, name, figure, tolerance):
    full_batch = table["fullbatch"] | {"q": 1.0}
    ours = ask(full_batch if figure[0] == "fullbatch" else table["setting"], name)
    truth = reduce(getitem, figure, table)
    assert truth * (1 - 1e-10) <= ours <= truth * (1 + tolerance)


def test_zcdp_is_converted_at_its_best_order(table):
    figures, delta = table["zcdp_no_amplification"], table["setting"]["delta"]
    noise = 1 / math.sqrt(2 * figures["rho"])
    converted = epsilon(
        sample_rate=1.0, noise_multiplier=noise, steps=1, delta=delta, accountant="zcdp"
    )
    assert converted == pytest.approx(figures["eps_improved"], rel=1e-10)
    assert converted < figures["eps_classic"]


def test_zcdp_says_that_sampling_does_not_help_it():
    with pytest.raises(AccountingError, match=r"not amplified by sampling") as caught:
        epsilon(
            sample_rate=0.01,
            noise_multiplier=1.0,
            steps=1,
            delta=1e-5,
            accountant="zcdp",
        )
    assert caught.value.field == "accountant"
    assert ACCOUNTANTS["zcdp"].why_not([Phase(1.0, 1.0, 1)]) == ""


def test_the_central_limit_is_not_a_bound_and_is_called_so(golden):
    below = [
        run for run in golden["settings"].values() if ask(run, "gdp") < 0.9 * run["eps"]
    ]
    assert len(below) >= 2
    assert ACCOUNTANTS["gdp"].status == "approximation"


def test_the_closed_form_for_unequal_steps(table):
    run, expected = table["setting"], table["kov_closed_form_best_split"]
    by_step = (1 - SHARES) * run["delta"] / run["steps"]
    losses = step_epsilons(Phase(run["q"], run["sigma"], 1), by_step)[:, None]
    found = unequal_steps_epsilon(
        np.array([run["steps"]]), losses, SHARES * run["delta"]
    ).min()
    assert expected["eps"] * (1 - 1e-9) <= found <= expected["eps"] * (1 + 1e-4)


@pytest.mark.parametrize("q", [1e-6, 0.01, 1.0])
@pytest.mark.parametrize("sigma", [0.05, 0.7, 30.0, 1e7])
def test_steps_at_once_are_the_steps_one_by_one(q, sigma):
    deltas = np.geomspace(1e-300, 0.9, 60)
    alone = [single_step_epsilon(q, sigma, x, ADD_OR_REMOVE_ONE) for x in deltas]
    ours = step_epsilons(Phase(q, sigma, 1), deltas)
    np.testing.assert_allclose(ours, alone, rtol=1e-9, atol=1e-300)


@pytest.mark.parametrize(
    ("k", "loss"), [(7, 1.0), (1000, 0.02), (1000, 1e-4), (40, 1e-6), (5, 20.0)]
)
def test_randomized_response_equals_its_sum(k, loss):
    with mp.workdps(60):
        p = 1 / (1 + mp.exp(-mp.mpf(loss)))
        for share in (0.0, 0.03, 0.2, 0.55, 0.9):
            spent = share * k * loss
            expected = mp.mpf(0)
            for n in range(k + 1):
                weight = mp.binomial(k, n) * p**n * (1 - p) ** (k - n)
                gap = 1 - mp.exp(mp.mpf(spent) - mp.mpf(loss) * (2 * n - k))
                expected += weight * max(gap, 0)
            ours, _ = log_delta(*(np.array([float(x)]) for x in (k, loss, spent)))
            assert ours[0] == pytest.approx(float(mp.log(expected)), abs=1e-9)


def test_randomized_response_is_solved_on_the_safe_side():
    rng = np.random.default_rng(0)
    k = np.floor(10 ** rng.uniform(0, 7, 400))
    loss, slack = 10 ** rng.uniform(-6, 1, 400), 10 ** rng.uniform(-12, -1, 400)
    found = composed_epsilons(k, loss, slack)
    inside = (found > 0) & (found < k * loss * (1 - 1e-9))
    assert inside.sum() > 100
    k, loss, slack, found = (x[inside] for x in (k, loss, slack, found))
    assert np.all(log_delta(k, loss, found)[0] <= np.log(slack))
    assert np.all(log_delta(k, loss, found * (1 - 1e-6))[0] > np.log(slack))


def test_moments_end_at_32_and_never_fall_below_what_that_allows():
    assert epsilon(
        sample_rate=1e-6,
        noise_multiplier=1000.0,
        steps=1,
        delta=1e-5,
        accountant="moments",
    ) == pytest.approx(math.log(1e5) / 32, rel=1e-6)


@pytest.mark.parametrize("name", ["basic", "advanced", "optimal", "moments", "gdp"])
def test_a_curve_rises_step_by_step(name):
    curve = epsilon_curve(
        sample_rate=0.01,
        noise_multiplier=1.1,
        delta=1e-5,
        steps=list(range(0, 10_000, 25)),
        accountant=name,
    )
    assert curve == sorted(curve)
