"""Numbers as text: limits and needs never below, others half a digit off at most."""

import math
import random
import re
from pathlib import Path

import pytest

from dpsgd_explorer.web.questions import rounding

WEB = Path(rounding.__file__).parents[1]
DRAWN = random.Random(3)
VALUES = [10 ** DRAWN.uniform(-9, 9) for _ in range(50)]
VALUES += [
    10**e * f for e in range(-5, 6) for f in (1, 1.05, 1.5, 2.0000001, 9.99, 0.1 + 0.2)
]
UP = (rounding.limit, rounding.need)


@pytest.mark.parametrize("write", UP, ids=lambda write: write.__name__)
@pytest.mark.parametrize("digits", [0, 2, 3])
def test_a_limit_and_a_need_are_not_below_their_value(write, digits):
    for value in VALUES:
        shown = float(write(value, digits))
        assert value * (1 - 1e-11) <= shown <= max(value * 1.1, value + 10.0**-digits)


@pytest.mark.parametrize("digits", [0, 2, 3])
def test_another_number_is_rounded_to_nearest(digits):
    for value in VALUES:
        shown = float(rounding.nearest(value, digits))
        assert abs(shown - value) <= (0.5 + 1e-6) * 10.0**-digits + 1e-11 * value
    below = [v for v in VALUES if float(rounding.nearest(v, digits)) < v]
    above = [v for v in VALUES if float(rounding.nearest(v, digits)) > v]
    assert min(len(below), len(above)) > len(VALUES) / 10


def test_shares_are_printed_in_percent_by_the_same_rule():
    assert rounding.percent(0.45119, 0) == "45"  # to nearest
    assert rounding.percent_limit(0.45119, 0) == "46"  # a limit
    assert rounding.percent_limit(0.1 + 0.2, 1) == "30.0"  # binary noise is none
    assert rounding.certainty_limit(0.999665) == "99.97"
    assert rounding.points(0.0096) == "0.96"


def test_significant_digits_are_written_without_an_exponent():
    assert rounding.significant(21.43) == "21"
    assert rounding.significant(0.000069412, 3) == "0.0000694"
    assert rounding.significant(0) == "0"


@pytest.mark.parametrize("value", [math.pi * 1e-3, 1.1453, 7.0])
@pytest.mark.parametrize("width", [3.0, 0.27, 0.02, 3e-5])
def test_a_median_has_no_more_digits_than_its_range_supports(value, width):
    shown = rounding.known_to(value, value - width / 2, value + width / 2)
    decimals = len(shown.partition(".")[2])
    assert abs(float(shown) - value) <= 0.5 * 10.0**-decimals + 1e-12
    assert decimals == 4 or 10.0**-decimals >= width / 10
    assert decimals == 0 or 10.0**-decimals <= width or width < 1e-4


def test_a_number_without_a_range_is_not_given_one():
    assert rounding.known_to(math.inf, 1.0, math.inf) == "∞"
    assert rounding.known_to(1.234, 1.0, math.inf) == "1.2"
    assert rounding.known_to(1.23456, 1.23456, 1.23456) == "1.2346"


#: Listings that chapters show, which readers run on their own.
CHAPTERS_CODE = re.compile(r"/hub/chapters/[^/]+/code[^/]*\.py$")


def test_the_direction_is_chosen_in_one_place_only():
    choosing = re.compile(r"\bround_up\(|\bROUND_\w+|\bfrom decimal import")
    files = [
        file.relative_to(WEB).as_posix()
        for file in WEB.rglob("*.py")
        if not CHAPTERS_CODE.search(file.as_posix())
        and choosing.search(file.read_text(encoding="utf-8"))
    ]
    assert files == ["questions/rounding.py"]


def test_a_limit_to_significant_digits_is_not_below_its_value():
    for value in VALUES:
        shown = float(rounding.significant_limit(value, 6))
        assert value <= shown <= value * (1 + 1e-5)
