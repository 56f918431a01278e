"""Errors of private regression: what the widget ships is what was compared."""

import pytest

from dpsgd_explorer.regression.comparison import EPSILONS
from dpsgd_explorer.web.figures.regression import chapter
from dpsgd_explorer.web.figures.regression import errors as widget

DATA = widget.data()
METHODS = {method["slug"]: method for method in DATA["methods"]}


def test_each_method_has_an_entry_for_each_budget():
    for method in DATA["methods"]:
        for values in (method["medians"], method["texts"], method["bands"]):
            assert len(values) == len(widget.SHOWN)


@pytest.mark.parametrize("slug", ["adassp", "ssp"])
def test_medians_are_those_of_the_comparison(slug):
    spreads = chapter.comparison().sweeps[slug].spreads
    for median, text, spread in zip(
        METHODS[slug]["medians"], METHODS[slug]["texts"], spreads, strict=True
    ):
        assert median is None or median == pytest.approx(spread.median, abs=1e-4)
        assert (median is None) == (spread.median > widget.TOP)
        assert text == widget.mse(spread.median)


@pytest.mark.parametrize("slug", ["large_noise", "small_noise"])
def test_the_descent_is_read_where_it_has_spent_so_much(slug):
    descent = METHODS[slug]
    for epsilon, median in zip(EPSILONS, descent["medians"], strict=True):
        reached = chapter.comparison().regimes[slug].within(epsilon)
        assert (median is None) == (reached.median > widget.TOP)
        assert median is None or median == pytest.approx(reached.median, abs=1e-4)
    first = DATA["mean"] if slug == "small_noise" else DATA["least"]
    assert descent["medians"][0] > first
    assert descent["medians"][0] > descent["medians"][-1] > DATA["least"]
