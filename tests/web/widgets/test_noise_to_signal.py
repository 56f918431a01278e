"""Noise over the run: each batch size against the accountant."""

import math

import pytest

from dpsgd_explorer import accounting
from dpsgd_explorer.web.hub.widgets.noise_to_signal import widget

POINTS = widget.data()["points"]
EPOCHS, SAMPLE_SIZE, DELTA, EPSILON = 20, 60_000, 1e-5, 3.0


@pytest.mark.parametrize("point", POINTS, ids=lambda point: str(point["batch"]))
def test_the_noise_that_is_printed_keeps_the_target_and_is_hardly_too_much(point):
    steps = math.ceil(EPOCHS * SAMPLE_SIZE / point["batch"])
    assert point["steps"] == f"{steps:,}"
    rate, sigma = point["batch"] / SAMPLE_SIZE, float(point["sigma"])
    assert (
        accounting.epsilon(
            sample_rate=rate, noise_multiplier=sigma, steps=steps, delta=DELTA
        )
        <= EPSILON
    )
    assert (
        accounting.epsilon(
            sample_rate=rate, noise_multiplier=sigma - 0.001, steps=steps, delta=DELTA
        )
        > EPSILON
    )
    least = POINTS[0]
    for i, steps_of in enumerate((lambda _: 1, lambda one: int(one.replace(",", "")))):
        noise, most = (
            float(one["sigma"]) / (one["batch"] * math.sqrt(steps_of(one["steps"])))
            for one in (point, least)
        )
        percent = 100 * noise / most
        assert 100 * point["shares"][i] == pytest.approx(percent, rel=0.01, abs=0.01)
        stated = float(point["relative"][i].removesuffix(" %"))
        assert stated == pytest.approx(percent, rel=0.06)


def test_beyond_some_size_a_larger_batch_gains_hardly_anything():
    shares = {point["batch"]: point["shares"] for point in POINTS}
    assert shares[64] == [1, 1]
    for i in (0, 1):
        found = [pair[i] for pair in shares.values()]
        assert found == sorted(found, reverse=True)
    updates, runs = zip(
        *(shares[size] for size in (64, 4096, SAMPLE_SIZE)), strict=True
    )
    assert updates[1] / updates[2] > 4
    assert runs[0] / runs[1] > 2.5
    assert runs[1] / runs[2] < 1.2


def test_all_records_in_each_step_are_the_last_batch():
    assert POINTS[-1]["batch"] == SAMPLE_SIZE
    assert POINTS[-1]["steps"] == f"{EPOCHS}"
    sigma = accounting.gaussian_noise_multiplier(
        epsilon=EPSILON, delta=DELTA, steps=EPOCHS
    )
    assert float(POINTS[-1]["sigma"]) == pytest.approx(sigma, abs=0.001)
