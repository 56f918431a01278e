import math

import mpmath as mp
import numpy as np
import pytest
from scipy.special import logsumexp

from dpsgd_explorer.accounting.core.log_space import (
    log_expm1,
    log_mixture,
    log_sum_segments,
)

HUGE = 800.0  # a log ratio whose exponential is no float


@pytest.mark.parametrize("x", [1e-200, 1e-9, 0.3, 30.0, 800.0, 1e6])
def test_log_expm1_has_no_overflow_and_no_loss(x):
    with mp.workdps(300):
        expected = float(mp.log(mp.expm1(mp.mpf(x))))
    assert log_expm1(np.array([x]))[0] == pytest.approx(expected, rel=1e-14)


def test_segments_are_summed_one_by_one():
    values = np.array([0.0, 1.0, 2.0, -900.0, 900.0, 3.0])
    parts = [values[:3], values[3:5], values[5:]]
    expected = [logsumexp(part) for part in parts]
    ours = log_sum_segments(values, np.array([0, 3, 5]))
    np.testing.assert_allclose(ours, expected, rtol=1e-15)


@pytest.mark.parametrize("q", [1e-9, 1e-4, 0.3, 0.9])
@pytest.mark.parametrize("beside", [[], [HUGE]])
def test_the_logarithm_and_its_slope_have_all_digits(q, beside):
    noise = 0.5
    log_ratios = np.array(
        [-30.0, -1.0, -1e-6, 0.5, 1.5, 9.0, 20.0, 23.0, 40.0, *beside]
    )
    v = noise * log_ratios + 0.5 / noise
    y, slope = log_mixture(v, q, noise)
    with mp.workdps(60):
        for i, each in enumerate(v):
            ratio = mp.exp(
                (mp.mpf(float(each)) - mp.mpf("0.5") / mp.mpf(noise)) / mp.mpf(noise)
            )
            whole = 1 - mp.mpf(q) + mp.mpf(q) * ratio
            assert y[i] == pytest.approx(float(mp.log(whole)), rel=1e-12, abs=0)
            share = float(mp.mpf(q) * ratio / whole / noise)
            assert slope[i] == pytest.approx(share, rel=1e-12, abs=0)
    assert math.isfinite(y.sum())
