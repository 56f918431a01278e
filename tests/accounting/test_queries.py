import math

import numpy as np
import pytest

from dpsgd_explorer.accounting import (
    ACCOUNTANTS,
    Phase,
    delta,
    epsilon,
    epsilon_curve,
    epsilons,
    noise_multiplier,
    steps,
)
from dpsgd_explorer.accounting.queries import epsilon_interval
from dpsgd_explorer.errors import AccountingError


@pytest.mark.parametrize(
    ("call", "field"),
    [
        (
            lambda: epsilon(sample_rate=0, noise_multiplier=1, steps=1, delta=1e-5),
            "sample_rate",
        ),
        (
            lambda: epsilon(sample_rate=1.5, noise_multiplier=1, steps=1, delta=1e-5),
            "sample_rate",
        ),
        (
            lambda: epsilon(
                sample_rate=math.nan, noise_multiplier=1, steps=1, delta=1e-5
            ),
            "sample_rate",
        ),
        (
            lambda: epsilon(sample_rate="0.1", noise_multiplier=1, steps=1, delta=1e-5),
            "sample_rate",
        ),
        (
            lambda: epsilon(sample_rate=True, noise_multiplier=1, steps=1, delta=1e-5),
            "sample_rate",
        ),
        (
            lambda: epsilon(sample_rate=0.1, noise_multiplier=-1, steps=1, delta=1e-5),
            "noise_multiplier",
        ),
        (
            lambda: epsilon(
                sample_rate=0.1, noise_multiplier=math.inf, steps=1, delta=1e-5
            ),
            "noise_multiplier",
        ),
        (
            lambda: epsilon(
                sample_rate=0.1, noise_multiplier=1e13, steps=1, delta=1e-5
            ),
            "noise_multiplier",
        ),
        (
            lambda: epsilon(sample_rate=0.1, noise_multiplier=1, steps=-1, delta=1e-5),
            "steps",
        ),
        (
            lambda: epsilon(sample_rate=0.1, noise_multiplier=1, steps=1.5, delta=1e-5),
            "steps",
        ),
        (
            lambda: epsilon(
                sample_rate=0.1, noise_multiplier=1, steps=True, delta=1e-5
            ),
            "steps",
        ),
        (
            lambda: epsilon(
                sample_rate=0.1, noise_multiplier=1, steps=10**9 + 1, delta=1e-5
            ),
            "steps",
        ),
        (
            lambda: epsilon(sample_rate=0.1, noise_multiplier=1, steps=1, delta=0),
            "delta",
        ),
        (
            lambda: epsilon(sample_rate=0.1, noise_multiplier=1, steps=1, delta=1),
            "delta",
        ),
        (
            lambda: epsilon(
                sample_rate=0.1, noise_multiplier=1, steps=1, delta=math.nan
            ),
            "delta",
        ),
        (lambda: epsilon_interval([Phase(0.1, 1, 1)], 0), "delta"),
        (lambda: epsilon_interval([Phase(0.1, 1, 1)], 1), "delta"),
        (lambda: epsilon_interval([Phase(0.1, 1, 1)], math.nan), "delta"),
        (
            lambda: epsilon_curve(
                sample_rate=0.1, noise_multiplier=1, delta=1e-5, steps=[1, -1]
            ),
            "steps",
        ),
        (
            lambda: delta(sample_rate=0.1, noise_multiplier=1, steps=1, epsilon=-0.5),
            "epsilon",
        ),
        (
            lambda: delta(
                sample_rate=0.1, noise_multiplier=1, steps=1, epsilon=math.inf
            ),
            "epsilon",
        ),
        (
            lambda: noise_multiplier(
                target_epsilon=0, sample_rate=0.1, steps=1, delta=1e-5
            ),
            "target_epsilon",
        ),
        (
            lambda: noise_multiplier(
                target_epsilon=1, sample_rate=0.1, steps=0, delta=1e-5
            ),
            "steps",
        ),
        (
            lambda: noise_multiplier(
                target_epsilon=1e-9, sample_rate=1, steps=10**9, delta=1e-20
            ),
            "target_epsilon",
        ),
        (
            lambda: steps(
                target_epsilon=math.inf, sample_rate=0.1, noise_multiplier=1, delta=1e-5
            ),
            "target_epsilon",
        ),
        (
            lambda: steps(
                target_epsilon=1, sample_rate=2, noise_multiplier=1, delta=1e-5
            ),
            "sample_rate",
        ),
        (lambda: Phase(0.1, None, 1), "noise_multiplier"),
    ],
)
def test_errors_name_argument_rule_and_what_came(call, field):
    with pytest.raises(
        AccountingError, match=rf"^{field} must be .*, got .+"
    ) as caught:
        call()
    assert caught.value.field == field


def test_an_accountant_that_is_not_there_is_refused_by_what_is():
    assert "pld" not in ACCOUNTANTS
    with pytest.raises(AccountingError) as caught:
        epsilon(
            sample_rate=0.1, noise_multiplier=1, steps=1, delta=1e-5, accountant="pld"
        )
    assert caught.value.field == "accountant"
    assert all(name in str(caught.value) for name in ACCOUNTANTS)
    assert "'pld'" in str(caught.value)


def test_a_relation_that_is_not_there_is_refused_by_what_is():
    with pytest.raises(AccountingError, match=r"add_or_remove_one.*'swap'") as caught:
        epsilon(
            sample_rate=0.1,
            noise_multiplier=1,
            steps=1,
            delta=1e-5,
            neighboring_relation="swap",
        )
    assert caught.value.field == "neighboring_relation"


def test_a_target_that_no_noise_reaches_is_answered_by_the_nearest_that_one_does():
    with pytest.raises(AccountingError, match=r"at least \S+,") as caught:
        noise_multiplier(target_epsilon=1e-9, sample_rate=1, steps=10**9, delta=1e-20)
    nearest = float(str(caught.value).split("at least ")[1].split(",")[0])
    assert math.isfinite(
        noise_multiplier(
            target_epsilon=nearest, sample_rate=1, steps=10**9, delta=1e-20
        )
    )
    with pytest.raises(AccountingError):
        noise_multiplier(
            target_epsilon=0.99 * nearest, sample_rate=1, steps=10**9, delta=1e-20
        )


def test_numbers_of_numpy_are_numbers():
    plain = epsilon(sample_rate=0.01, noise_multiplier=1.1, steps=100, delta=1e-5)
    assert (
        epsilon(
            sample_rate=np.float64(0.01),
            noise_multiplier=np.float64(1.1),
            steps=np.int64(100),
            delta=1e-5,
        )
        == plain
    )


def test_arrays_of_settings_are_broadcast_and_each_is_one_call():
    rates, noise = np.array([[0.01], [0.2]], dtype=np.float32), [0.8, 1.5, 1.0]
    found = epsilons(sample_rate=rates, noise_multiplier=noise, steps=30, delta=1e-5)
    assert found.shape == (2, 3)
    for i, j in np.ndindex(2, 3):
        assert found[i, j] == epsilon(
            sample_rate=rates[i, 0], noise_multiplier=noise[j], steps=30, delta=1e-5
        )
    alone = epsilons(sample_rate=0.01, noise_multiplier=0.0, steps=3, delta=1e-5)
    assert (alone.shape, alone) == ((), math.inf)
    by_steps = epsilons(
        sample_rate=1.0, noise_multiplier=2.0, steps=[0, 4], delta=[1e-5, 1e-3]
    )
    assert by_steps[0] == 0 < by_steps[1]
    none = epsilons(sample_rate=[], noise_multiplier=2.0, steps=3, delta=1e-5)
    assert none.shape == (0,)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"sample_rate": [0.1, 0.0]}, "sample_rate"),
        ({"noise_multiplier": [1.0, True]}, "noise_multiplier"),
        ({"steps": [1.5]}, "steps"),
        ({"delta": ["1e-5"]}, "delta"),
        ({"delta": np.ma.array([1e-5, 1e-6], mask=[True, False])}, "delta"),
        ({"sample_rate": [0.1, 0.2], "delta": [0.1, 0.2, 0.3]}, "sample_rate"),
    ],
)
def test_a_wrong_element_or_shape_is_rejected_by_name(change, field):
    run = {"sample_rate": 0.1, "noise_multiplier": 1.0, "steps": 3, "delta": 1e-5}
    with pytest.raises(AccountingError) as caught:
        epsilons(**run | change)
    assert caught.value.field == field
