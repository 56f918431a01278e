"""Randomised response on oneself: the law of a sheet, and the errors of surveys."""

import itertools
import math
import statistics

import pytest

from dpsgd_explorer.web.hub.widgets.randomised_response import widget


def test_the_law_of_a_sheet_is_that_of_two_fair_coins():
    data = widget.data()
    sheets = [
        truth if first else second
        for truth in (True,)
        for first, second in itertools.product((True, False), repeat=2)
    ]
    truth = statistics.mean(sheets)
    assert data["truth_probability"] == pytest.approx(truth)
    factor = truth / (1 - truth)
    assert data["factor"] == f"{factor:.0f}"
    assert float(data["epsilon"]) >= math.log(factor) > float(data["epsilon"]) - 0.01
    assert data["belief"] == f"{100 * truth:.0f}"  # Bayes, from even odds


def test_errors_of_surveys_are_those_of_all_their_sheets():
    data = widget.data()
    p, share = data["truth_probability"], data["true_share"]
    yes = share * p + (1 - share) * (1 - p)
    for survey in data["surveys"]:
        error = math.sqrt(yes * (1 - yes) / survey["people"]) / (2 * p - 1)
        assert survey["error"] == pytest.approx(error, abs=1e-5)
        assert float(survey["error_words"]) == pytest.approx(100 * error, abs=0.05)
