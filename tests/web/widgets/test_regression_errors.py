"""Errors of private regression: what the widget ships is what was compared."""

import re

import pytest

from dpsgd_explorer.regression.comparison import EPSILONS
from dpsgd_explorer.web.hub.chapters.private_linear_regression import figures as chapter
from dpsgd_explorer.web.hub.widgets.regression_errors import widget

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
        # Two digits: the median of so many releases is known no better.
        assert float(text) == pytest.approx(spread.median, rel=0.051)
        assert len(text.replace(".", "").lstrip("0")) == 2


@pytest.mark.parametrize("slug", ["large_noise", "small_noise"])
def test_the_descent_is_read_where_it_has_spent_so_much(slug):
    descent = METHODS[slug]
    for epsilon, median in zip(EPSILONS, descent["medians"], strict=True):
        reached = chapter.comparison().regimes[slug].within(epsilon)
        assert (median is None) == (reached.median > TOP)
        assert median is None or median == pytest.approx(reached.median, abs=1e-4)
    least = chapter.comparison().evaluation_set.mse
    first = DATA["mean"] if slug == "small_noise" else least
    assert descent["medians"][0] > first
    assert descent["medians"][0] > descent["medians"][-1] > least


def test_lines_have_the_colours_and_the_axes_of_the_standing_picture():
    """The script draws over the server's picture: colour, dash and scale must stay."""
    picture = str(widget.picture().wide)
    drawn = set(re.findall(r'class="line (s-[a-z ]+)" d="M', picture))
    assert {f"s-{m['colour']}{m['dash']}" for m in DATA["methods"]} <= drawn
    ticks = [text for _, text in DATA["axes"]["ticks"]]
    assert all(f">{text}</text>" in picture for text in ticks)
    for level in DATA["axes"]["baselines"]:
        assert level["words"] in picture


def test_text_and_picture_compare_the_same_descent_and_say_its_learning_rate():
    """The rate from public bounds: the notebook's own is not private."""
    view = chapter.comparison()
    assert view.question.chosen_rate == "public"
    reached = view.regimes["large_noise"].within(2.0).median
    assert chapter.compared_error("descent", 2.0) == reached
    shown = METHODS["large_noise"]["texts"][-1]
    assert float(shown) == pytest.approx(reached, rel=0.051)
    for sub in (DATA["sub"], widget.picture().sub):
        assert "from public bounds" in sub
    assert float(chapter.error_at_the_private_rate(2.0)) < reached


def test_text_and_table_have_one_error_of_each_method():
    text = chapter.error_by_method[1]
    assert text.startswith("0.6")
    [row] = [row for row in widget.picture().rows if row[0] == "2"]
    assert text in {cell.split(" (")[0] for cell in row}
