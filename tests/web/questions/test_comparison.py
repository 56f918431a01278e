"""A comparison holds everything fixed but one setting, and names what it holds."""

import pytest

from dpsgd_explorer.web.questions.comparison import Comparison


def error(epsilon, people, noise="none"):
    return 1 / (epsilon * people)


def comparison(varied="epsilon", values=(1.0, 2.0), **fixed):
    return Comparison(error, varied, values, fixed, str)


def test_the_sides_differ_in_one_setting_alone():
    c = comparison(people=1000, noise="each answer")
    assert c.sides == (1 / 1000, 1 / 2000)
    assert (c[0], c[1], c.at(1), c.ratio) == ("0.001", "0.0005", "2", 0.5)
    assert c.held == "1,000 people"


def test_what_is_held_is_named_in_words():
    c = comparison("noise", ("none", "some"), people=1000, epsilon=0.5)
    assert c.held == "1,000 people and ε = 0.5"


@pytest.mark.parametrize(
    "fixed",
    [
        {"people": 1000},  # the noise is left to its default
        {"people": 1000, "noise": "none", "epsilon": 1.0},  # fixed and varied
        {"people": 1000, "noise": "none", "place": "here"},
    ],
)
def test_a_setting_left_open_or_given_twice_is_refused(fixed):
    with pytest.raises(ValueError, match="gives each of"):
        comparison(**fixed)


def test_a_comparison_that_names_nothing_is_refused():
    with pytest.raises(ValueError, match="names nothing"):
        Comparison(lambda x, hidden: x, "x", (1, 2), {"hidden": 3}, str)
