import math

import numpy as np
import pytest

from dpsgd_explorer.accounting.core.root_finding import (
    CLOSE,
    NEAR_JUMP,
    first_safe,
    least_noise,
    most_steps,
    near_noise,
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


class Counted:
    """A function that knows how often it was asked."""

    def __init__(self, function):
        self.function, self.calls = function, 0

    def __call__(self, x):
        self.calls += 1
        return self.function(x)


@pytest.mark.parametrize("most", [1, 300, 10**9])
@pytest.mark.parametrize("allowed", [0, 1, 7, 299, 300, 12_345, 10**10])
@pytest.mark.parametrize("rise", [0.3, 0.5, 1.2])
@pytest.mark.parametrize("off", [0.5, 1.0, 2.0])
def test_the_most_steps_are_found_from_any_guess(most, allowed, rise, off):
    excess = Counted(lambda n: rise * math.log(n / (allowed + 0.5)))
    assert most_steps(excess, off * allowed, most) == min(allowed, most)
    assert excess.calls <= 12


def test_a_search_whose_bracket_no_longer_moves_ends_with_an_assertion():
    """24 bits are too few for a tolerance of 1e-12."""
    with pytest.raises(AssertionError, match="must end"):
        first_safe(lambda x: 1.1 - float(x), np.float32(1.0), np.float32(2.0))


@pytest.mark.parametrize("power", [1.0, 3.0, 20.0])
@pytest.mark.parametrize("noise", [1e-9, 0.3, 7.7, 1e9])
@pytest.mark.parametrize("off", [0.9, 1.0, 1.02, 3.0])
@pytest.mark.parametrize("close", [CLOSE, 1e-5])
def test_near_noise_spends_next_to_all_after_few_questions(power, noise, off, close):
    excess = Counted(lambda x: power * math.log(noise / x))
    found = near_noise(excess, off * noise, power / 1.5, close)
    assert -2 * close <= excess.function(found) <= 0
    assert excess.calls <= (9 if off == 3.0 else 5)


@pytest.mark.parametrize("jump", [0.5, 1.0, 1.7])
def test_near_noise_ends_on_the_safe_side_of_a_jump(jump):
    excess = Counted(lambda x: 0.7 if x < jump else -0.2)
    found = near_noise(excess, 1.0, 2.0)
    assert jump <= found <= jump * (1 + 1.01 * NEAR_JUMP)
    assert excess.calls < 40


def test_near_noise_says_when_none_is_enough_and_when_any_is():
    assert near_noise(lambda _: 1.0, 1.0, 1.0) == math.inf
    assert near_noise(lambda _: math.inf, 1.0, 1.0) == math.inf
    assert 0 < near_noise(lambda _: -1.0, 1.0, 1.0) < 1.01 / MAX_NOISE_MULTIPLIER
    assert 0 < near_noise(lambda _: -math.inf, 1.0, 1.0) < 1.01 / MAX_NOISE_MULTIPLIER
