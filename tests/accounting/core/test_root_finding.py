import math

import pytest

from dpsgd_explorer.accounting.core.root_finding import (
    confirmed,
    first_safe,
    least_noise,
)
from dpsgd_explorer.accounting.core.validation import MAX_NOISE_MULTIPLIER


@pytest.mark.parametrize(
    ("function", "root"),
    [
        (lambda x: 2 - x**3, 2 ** (1 / 3)),
        (lambda x: -x, 0.0),
        (lambda x: math.exp(-40 * x) - 1e-9, math.log(1e9) / 40),
        (lambda x: -math.copysign(abs(x - 1) ** 0.2, x - 1), 1.0),
        (lambda x: 1.0 if x < 1.5 else -1e-9, 1.5),
        (lambda x: max(1.7 - x, 0.0), 1.7),
    ],
    ids=["cubic", "line", "steep", "cusp", "jump", "flat"],
)
def test_the_answer_is_on_the_safe_side_of_the_root_and_close(function, root):
    calls = []

    def counted(x):
        calls.append(x)
        return function(x)

    found = first_safe(counted, -2.0, 5.0)
    assert function(found) <= 0
    assert root - 1e-15 <= found <= root + 1e-11
    assert len(calls) < 100


def test_least_noise_is_found_over_the_whole_scale():
    for noise in (1e-11, 0.3, 1.0, 7.7, 1e11):
        found = least_noise(lambda x, at=noise: at / x - 1)
        assert noise <= found <= noise * (1 + 1e-10)


def test_least_noise_says_when_none_is_enough_and_when_any_is():
    assert least_noise(lambda _: 1.0) == math.inf
    assert 0 < least_noise(lambda _: -1.0) < 1.01 / MAX_NOISE_MULTIPLIER


@pytest.mark.parametrize(("least", "found"), [(5, 10), (15, 20), (25, 20)])
def test_what_the_last_one_does_not_confirm_it_searches_itself(least, found):
    searched = []

    def search(one):
        searched.append(one)
        return 10 * one

    def keeps(one, answer):
        assert one == 2
        return answer >= least

    assert confirmed((1, 2), search, keeps) == found
    assert searched == ([1] if found == 10 else [1, 2])
