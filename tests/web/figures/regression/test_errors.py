"""Errors of private regression: what the widget ships is what was compared."""

import re

import pytest

from dpsgd_explorer.regression.comparison import EPSILONS
from dpsgd_explorer.web.figures.regression import chapter
from dpsgd_explorer.web.figures.regression import errors as widget

DATA = widget.data()
TOP = DATA["axes"]["error"][1]
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
        assert (median is None) == (spread.median > TOP)
        assert text == widget.mse(spread.median)


@pytest.mark.parametrize("slug", ["large_noise", "small_noise"])
def test_the_descent_is_read_where_it_has_spent_so_much(slug):
    descent = METHODS[slug]
    for epsilon, median in zip(EPSILONS, descent["medians"], strict=True):
        reached = chapter.comparison().regimes[slug].within(epsilon)
        assert (median is None) == (reached.median > TOP)
        assert median is None or median == pytest.approx(reached.median, abs=1e-4)
    first = DATA["mean"] if slug == "small_noise" else DATA["least"]
    assert descent["medians"][0] > first
    assert descent["medians"][0] > descent["medians"][-1] > DATA["least"]


def test_lines_have_the_colours_and_the_axes_of_the_standing_picture():
    """The script draws over the server's picture: colour, dash and scale must stay."""
    picture = str(widget.picture().wide)
    drawn = set(re.findall(r'class="line (s-[a-z ]+)" d="M', picture))
    assert {f"s-{m['colour']}{m['dash']}" for m in DATA["methods"]} <= drawn
    ticks = [text for _, text in DATA["axes"]["ticks"]]
    assert all(f">{text}</text>" in picture for text in ticks)
    for level in DATA["axes"]["baselines"]:
        assert level["words"] in picture
