import math
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsgd_explorer.accounting import round_up
from dpsgd_explorer.errors import AccountingError


@pytest.mark.parametrize(
    ("epsilon", "digits", "text"),
    [
        (2.3815969, 2, "2.39"),
        (2.3815969, 4, "2.3816"),
        (2.38, 2, "2.38"),
        (0.1 + 0.2, 2, "0.30"),
        (3.0000000000000004, 2, "3.00"),
        (2.9999999999999996, 2, "3.00"),
        (3.0000001, 2, "3.01"),
        (0.0, 2, "0.00"),
        (0.0031, 2, "0.0031"),
        (0.003141, 2, "0.0032"),
        (0.00999, 2, "0.01"),
        (0.0101, 2, "0.02"),
        (0.00031, 4, "0.0004"),
        (0.000031, 4, "0.000031"),
        (1e-6, 4, "0.000001"),
        (9.91e-7, 2, "0.000001"),
        (1.2e-7, 2, "1.2e-7"),
        (1.21e-7, 2, "1.3e-7"),
        (0.1**7, 2, "1e-7"),
        (1.1e-30, 2, "1.1e-30"),
        (5e-324, 2, "5e-324"),
        (7.0, 0, "7"),
        (7.2, 0, "8"),
        (1e30, 2, "1" + 30 * "0" + ".00"),
        (math.inf, 2, "∞"),
    ],
)
def test_epsilon_is_rounded_up(epsilon, digits, text):
    assert round_up(epsilon, digits) == text


@settings(deadline=None, derandomize=True)
@given(st.floats(0, 1e300), st.integers(0, 8))
def test_the_text_is_not_below_the_value_and_less_than_a_digit_above(epsilon, digits):
    exact, text = Decimal(epsilon), Decimal(round_up(epsilon, digits))
    noise = exact * Decimal("1e-11")
    assert exact - noise <= text <= exact + noise + Decimal(1).scaleb(-digits)


@settings(deadline=None, derandomize=True)
@given(st.floats(5e-324, 1e-2, exclude_max=True), st.integers(0, 2))
def test_the_text_of_a_small_value_is_within_a_tenth_of_it(epsilon, digits):
    exact, text = Decimal(epsilon), Decimal(round_up(epsilon, digits))
    assert exact * (1 - Decimal("1e-11")) <= text <= exact * Decimal("1.1")


@pytest.mark.parametrize("epsilon", [-0.001, math.nan, -math.inf])
def test_what_is_no_epsilon_is_refused(epsilon):
    with pytest.raises(AccountingError, match="epsilon must be at least 0"):
        round_up(epsilon)
