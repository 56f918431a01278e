"""Sums of powers: digits that do not depend on the number of threads."""

import os
import subprocess
import sys

import numpy as np
import pytest

from dpsgd_explorer.accounting.core.fourier import transform_excess

#: Prints ε of a run for whose transform BLAS would start a second thread.
EPSILON = """
from dpsgd_explorer.accounting import epsilon
print(repr(epsilon(sample_rate=0.01, noise_multiplier=1.0, steps=100, delta=1e-5)))
"""


@pytest.mark.parametrize("count", [5, 33, 1000, 1878])
def test_every_sum_is_the_sum_of_its_terms(count):
    generator = np.random.default_rng(7)
    shares = generator.random(300)
    shares /= shares.sum()
    angles = generator.normal(size=300) * 0.01
    terms = np.expm1(1j * np.outer(np.arange(count), angles))
    np.testing.assert_allclose(
        transform_excess(shares, angles, count), terms @ shares, rtol=1e-11, atol=1e-15
    )


def test_epsilon_does_not_depend_on_the_number_of_threads():
    printed = set()
    for threads in ("1", "2"):
        names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
        child = subprocess.run(
            [sys.executable, "-c", EPSILON],
            env=os.environ | dict.fromkeys(names, threads),
            capture_output=True,
            check=True,
            text=True,
        )
        printed.add(child.stdout)
    assert len(printed) == 1
