"""Our figures beside tests/golden/accounting.json; the README there has the origin."""

import math

import pytest

from dpsgd_explorer.accounting import (
    delta,
    epsilon,
    epsilon_curve,
    gaussian_epsilon,
    gaussian_noise_multiplier,
    noise_multiplier,
)
from tests.in_order import in_order

# Opacus 1.6.0, accountant "rdp" with its default orders (none above 63), rounded to
# four decimals; measured with the same inputs as the golden file.
OPACUS = {
    "mnist_tfp_60ep": 2.5966,
    "mnist_tfp_15ep_s1.3": 0.9544,
    "mnist_tfp_45ep_s0.7": 6.3181,
    "abadi_q.01_s4_T1e4": 1.0355,
    "mnist_abadi_s8_T1e4": 0.4808,
    "mnist_abadi_s2_T1e4": 2.3529,
    "cifar10_large_s3": 7.0985,
    "cifar10_large_s10": 0.9877,
    "imagenet_s2.5": 7.9537,
    "sst2_ft_s0.65": 5.7445,
    "fullbatch_s10_T100": 4.7285,
    "seed_noisygd_s50_T502": 2.1478,
    "seed_noisygd_s500_T50251": 2.1491,
    "tinyq_1e-5_s0.8": 0.7859,
    "lownoise_s0.4": 31.6487,
    "lownoise_s0.3": 25.9458,
    "onestep_q.01": 0.9555,
    "onestep_full": 4.7285,
    "million_steps": 6.4975,
    "halfbatch_s5": 19.2897,
    "q.25_s20": 6.7445,
    "large_eps": 221.5248,
    "delta1e-10": 3.5813,
}


def ask(setting):
    return epsilon(
        sample_rate=setting["q"],
        noise_multiplier=setting["sigma"],
        steps=setting["steps"],
        delta=setting["delta"],
        accountant="rdp",
    )


def test_rdp_lies_between_the_exact_value_and_dp_accounting(golden):
    assert len(golden["settings"]) == 24
    for name, setting in golden["settings"].items():
        ours = ask(setting)
        assert ours <= setting["rdp_dp_accounting"] * (1 + 1e-12), name
        assert ours >= setting["eps"], name


@pytest.mark.parametrize("name", OPACUS)
def test_rdp_is_that_of_opacus_where_its_orders_suffice(golden, name):
    assert ask(golden["settings"][name]) == pytest.approx(OPACUS[name], abs=6e-5)


def test_absolute_values_in_the_series_no_longer_double_epsilon(golden):
    # dp-accounting: 458.1; the truth: 209.9.
    setting = golden["settings"]["large_eps"]
    assert ask(setting) < 0.5 * setting["rdp_dp_accounting"]


def test_rdp_of_the_composition_comparison(golden):
    table = golden["composition_comparison"]
    setting = table["setting"]
    ours = ask(setting)
    expected = table["rdp_improved_conversion_integer<=512"]["eps"]
    assert ours == pytest.approx(expected, rel=1e-9)


def test_rdp_of_a_full_batch_run(golden):
    run = golden["composition_comparison"]["fullbatch"]
    ours = ask(run | {"q": 1})
    # The zCDP figure is the same bound with the order optimised over all reals.
    assert run["zcdp_improved"] <= ours
    assert ours <= run["rdp_improved_default_orders_dp_accounting"] * (1 + 1e-12)


def test_exact_gaussian_of_full_batch_runs(golden):
    runs = [s for s in golden["settings"].values() if s["q"] == 1]
    assert len(runs) == 4
    for run in runs:
        exact = gaussian_epsilon(
            delta=run["delta"], noise_multiplier=run["sigma"], steps=run["steps"]
        )
        assert exact == pytest.approx(run["eps"], rel=1e-11)


def test_exact_gaussian_gives_one_subsampled_step(golden):
    # Remove: δ(ε) = q δ_Gaussian(ε'), with e^ε = 1 + q (e^ε' - 1).
    step = golden["settings"]["onestep_q.01"]
    inner = gaussian_epsilon(
        delta=step["delta"] / step["q"], noise_multiplier=step["sigma"]
    )
    outer = math.log1p(step["q"] * math.expm1(inner))
    assert outer == pytest.approx(step["eps"], rel=1e-10)


def test_exact_noise_of_one_gaussian(golden):
    cases = golden["composition_comparison"]["one_gaussian"]
    assert len(cases) == 5
    for case in cases:
        noise = gaussian_noise_multiplier(epsilon=case["eps"], delta=case["delta"])
        assert noise == pytest.approx(case["sigma_analytic_exact"], rel=1e-10)
        loss = gaussian_epsilon(
            delta=case["delta"], noise_multiplier=case["sigma_classical"]
        )
        assert loss == pytest.approx(case["eps_exact_at_classical_sigma"], rel=1e-9)


def test_rdp_curve_lies_above_the_exact_one(golden):
    curve = golden["curve"]["curve"]
    run = (curve["q"], curve["sigma"], curve["delta"])
    ours = in_order(epsilon_curve, *run, steps=curve["t"], accountant="rdp")
    assert all(a >= b for a, b in zip(ours, curve["eps"], strict=True))


def test_rdp_asks_for_more_noise_than_the_exact_calibration(golden):
    for case in golden["curve"]["calibration"]:
        run = (case["q"], case["steps"], case["delta"])
        ours = in_order(noise_multiplier, case["eps"], *run, "rdp")
        assert case["sigma"] < ours < 1.12 * case["sigma"]


def test_rdp_noise_is_that_of_dp_accounting():
    # dp-accounting 0.6.0, calibrate_dp_mechanism with its RdpAccountant: 2.278059.
    ours = noise_multiplier(
        target_epsilon=2, sample_rate=0.01, steps=10_000, delta=1e-5, accountant="rdp"
    )
    assert ours == pytest.approx(2.278059, rel=2e-6)


def test_rdp_delta_lies_above_the_exact_one(golden):
    for case in golden["curve"]["delta_at_eps"]:
        ours = delta(
            sample_rate=case["q"],
            noise_multiplier=case["sigma"],
            steps=case["steps"],
            epsilon=case["eps"],
            accountant="rdp",
        )
        assert ours >= max(case["delta_remove"], case["delta_add"])
