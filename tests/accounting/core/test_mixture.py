import math

import numpy as np
import pytest
from mpmath import mp, mpf

from dpsgd_explorer.accounting.core.mixture import log_mixture

HUGE = 800.0  # a log ratio whose exponential is no float


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
            ratio = mp.exp((mpf(float(each)) - mpf("0.5") / mpf(noise)) / mpf(noise))
            whole = 1 - mpf(q) + mpf(q) * ratio
            assert y[i] == pytest.approx(float(mp.log(whole)), rel=1e-12, abs=0)
            share = float(mpf(q) * ratio / whole / mpf(noise))
            assert slope[i] == pytest.approx(share, rel=1e-12, abs=0)
    assert math.isfinite(y.sum())
