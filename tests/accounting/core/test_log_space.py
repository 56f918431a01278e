import mpmath as mp
import numpy as np
import pytest
from scipy.special import logsumexp

from dpsgd_explorer.accounting.core.log_space import log_expm1, log_sum_segments


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
