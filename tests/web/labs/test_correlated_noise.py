"""The lab of correlated noise: its numbers are the accountant's."""

import pytest

from dpsgd_explorer.accounting import (
    Plan,
    ToeplitzStrategy,
    TreeStrategy,
    banded_strategy,
    cyclic_poisson,
    epsilon,
    gaussian_epsilon,
    geometric_strategy,
)
from dpsgd_explorer.web.labs.correlated_noise import page as lab
from tests.web.reading import page_data

LAB = "/labs/correlated-noise/"
SIZES = ((60_000, 512, 2000), (60_000, 4096, 300), (10_000, 256, 1000))


@pytest.mark.parametrize(("place", "size"), [*enumerate(SIZES)])
def test_each_strategy_spends_its_epsilon_and_has_its_error(place, size):
    records, batch_size, steps = size
    stored = lab.stored()
    run = stored["runs"][place]
    assert run["steps"] == steps
    assert run["name"].startswith(f"{batch_size:,} of {records:,}")
    plain = ToeplitzStrategy((1.0,), steps)
    engine_slots = Plan.create(
        sample_size=records,
        expected_batch_size=batch_size,
        steps=steps,
        delta=stored["delta"],
        noise_multiplier=1.0,
        sampling="fixed_slots",
    ).slots
    for at in (0, len(stored["epsilons"]) - 1):
        target = stored["epsilons"][at]
        independent = run["cyclic"][0]["noise"][at] * plain.rmse()
        for sent in run["cyclic"][:: len(run["cyclic"]) - 1]:
            bands = int(sent["name"].removeprefix("b = "))
            strategy = banded_strategy(steps, bands)
            sigma = sent["noise"][at] / strategy.column_norm
            assert float(sent["sigmas"][at]) == pytest.approx(sigma, rel=6e-3)
            cost = cyclic_poisson(
                sample_rate=batch_size / records,
                noise_multiplier=sigma,
                steps=steps,
                bands=bands,
            )
            spent = epsilon(
                sample_rate=cost.sample_rate,
                noise_multiplier=cost.noise_multiplier,
                steps=cost.steps,
                delta=stored["delta"],
            )
            assert spent == pytest.approx(target, rel=2e-3)
            ratio = sigma * strategy.rmse() / independent
            assert float(sent["ratios"][at]) == pytest.approx(ratio, abs=6e-3)
        for sent in run["fixed"][2:]:
            if "estimator" in sent:
                strategy = TreeStrategy(steps, sent["estimator"])
            else:
                decay = float(sent["name"].removeprefix("λ = "))
                strategy = geometric_strategy(decay, steps)
            sensitivity = strategy.fixed_slots_sensitivity(engine_slots)
            sigma = sent["noise"][at] / sensitivity
            spent = gaussian_epsilon(delta=stored["delta"], noise_multiplier=sigma)
            assert spent == pytest.approx(target, rel=2e-3)
            ratio = sigma * strategy.rmse(sensitivity=sensitivity) / independent
            assert float(sent["ratios"][at]) == pytest.approx(ratio, abs=6e-3)


def test_the_table_and_its_words_are_there_without_script(reading):
    text = reading.get(LAB).text
    start = lab.START
    for one in lab.stored()["runs"][start["run"]]["cyclic"]:
        assert f">{one['name']}</th>" in text
        assert f'<td class="n">{one["ratios"][start["epsilon"]]}</td>' in text
    assert page_data(text)["recorded"] == lab.stored()


def test_the_lab_shows_gains_and_no_gains():
    ratios = [
        float(ratio)
        for run in lab.stored()["runs"]
        for one in (*run["cyclic"][1:], *run["fixed"])
        for ratio in one["ratios"]
    ]
    assert min(ratios) < 0.6
    assert max(ratios) > 1.05
