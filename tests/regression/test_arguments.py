"""Arguments that were taken for something else."""

import numpy as np
import pytest

from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.regression import adassp, noisy_gradient_descent, ssp

X = np.array([[0.1], [0.2], [0.3]])
Y = np.array([0.1, 0.2, 0.3])
PRICE = {"epsilon": 1.0, "delta": 1e-5}
DESCENT = {"noise_multiplier": 5.0, "steps": 3, "delta": 1e-5, "public_size": 3}
RELEASES = [(ssp, PRICE), (adassp, PRICE), (noisy_gradient_descent, DESCENT)]


def refused(release, terms, x=X, y=Y, **more):
    with pytest.raises(ConfigError) as caught:
        release(x, y, x_bound=1.0, y_bound=1.0, **terms, **more)
    return caught.value


@pytest.mark.parametrize(("release", "terms"), RELEASES)
@pytest.mark.parametrize("repetitions", [0, False, -1, 2.5])
def test_no_repetition_is_not_one(release, terms, repetitions):
    error = refused(release, terms, repetitions=repetitions)
    assert error.field == "repetitions"


@pytest.mark.parametrize(("release", "terms"), RELEASES)
def test_a_seed_is_no_generator(release, terms):
    error = refused(release, terms, rng=3)
    assert error.field == "rng"
    assert "numpy.random.default_rng" in str(error)


@pytest.mark.parametrize(("release", "terms"), RELEASES)
def test_values_under_a_mask_and_imaginary_parts_are_not_dropped(release, terms):
    masked = np.ma.array(X, mask=[[0], [1], [0]])
    assert refused(release, terms, x=masked).field == "X"
    assert refused(release, terms, y=np.ma.array(Y, mask=[0, 0, 1])).field == "y"
    assert "real" in str(refused(release, terms, x=X + 1j))
    assert "real" in str(refused(release, terms, y=Y.astype(complex)))
