"""A hundred faces: limits against Bayes' rule by hand, and their counts."""

import math

import pytest

from dpsgd_explorer.web.hub.widgets.odds_faces import widget


@pytest.fixture(scope="module")
def data():
    return widget.data()


def test_limits_are_bayes_rule_rounded_up(data):
    for prior in data["priors"]:
        share = prior["before"] / 100
        for epsilon, limits in zip(data["epsilons"], prior["limits"], strict=True):
            told = share * math.exp(epsilon)  # in for one, out for the other
            exact = 100 * told / (told + 1 - share)
            assert -1e-9 < float(limits["percent"]) - exact < 0.1
            assert -1e-9 < limits["right"] - exact < 1 - 1e-9
            assert limits["percent"] != "100.0"


def test_without_any_loss_nothing_is_gained(data):
    for prior in data["priors"]:
        assert prior["limits"][0]["right"] == prior["before"]


def test_factors_of_the_odds_are_rounded_up(data):
    for epsilon, factor in zip(data["epsilons"], data["factors"], strict=True):
        assert 0 <= float(factor) - math.exp(epsilon) < 0.01
