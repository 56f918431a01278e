"""What a comparison says of luck."""

import pytest

from dpsgd_explorer.web.run_views.comparison import _beyond_luck

DRAWS = [0.84, 0.85, 0.86]
# Student's 97.5 % quantile at 2 degrees of freedom, 4.3027, times 0.01, times the root
# of 1 + 1/3.
REACH = 0.049683


@pytest.mark.parametrize(
    ("other", "claim"),
    [
        (0.85 + REACH - 1e-5, "another seed alone may explain that"),
        (0.85 + REACH + 1e-5, "that is more than luck explains"),
        (0.85 - REACH - 1e-5, "that is more than luck explains"),
    ],
)
def test_a_lead_is_luck_within_the_prediction_interval_of_new_draws(other, claim):
    said = _beyond_luck("ABC", DRAWS, {"D": [other]})
    assert said.startswith("D is 5.0 points ")
    assert ("above" if other > 0.85 else "below") in said
    assert claim in said
    assert "within 5.0 points of it" in said


def test_draws_that_agree_leave_nothing_to_luck():
    said = _beyond_luck("AB", [0.85, 0.85], {"C": [0.851], "D": [0.84]})
    assert said.startswith("C is 0.10 points above their mean; that is more than luck")


def test_the_mean_of_several_varies_less():
    one = _beyond_luck("ABC", DRAWS, {"D": [0.89]})
    many = _beyond_luck("ABC", DRAWS, {"DEFG": [0.89, 0.89, 0.89, 0.89]})
    assert "another seed" in one
    assert many.startswith("The mean of D, E, F and G is 4.0 points above their mean")
    assert "more than luck" in many
