"""Errors of private regression: what the widget ships is what was recorded."""

import re

import numpy as np
import pytest

from dpsgd_explorer.regression.comparison import EPSILONS
from dpsgd_explorer.web.hub.chapters.private_linear_regression import figures as chapter
from dpsgd_explorer.web.hub.widgets.regression_errors import record, widget
from dpsgd_explorer.web.labs.regression.question import RegressionQuestion
from dpsgd_explorer.web.labs.regression.results import View, sweep_cached

DATA = widget.data()
TOP = DATA["axes"]["error"][1]
METHODS = {method["slug"]: method for method in DATA["methods"]}
BANDS = widget.recorded()["methods"]


def test_each_method_has_an_entry_for_each_budget():
    assert widget.recorded()["repetitions"] == widget.REPETITIONS == 1_000
    assert widget.recorded()["epsilons"] == list(EPSILONS)
    for method in DATA["methods"]:
        for name in ("medians", "lows", "highs", "texts", "bands"):
            assert len(method[name]) == len(widget.SHOWN), name


@pytest.mark.parametrize("slug", ["adassp", "ssp"])
def test_the_recording_is_what_the_library_releases_at_the_first_budget(slug):
    """The first ε draws first, so one ε alone has the same draws."""
    question = RegressionQuestion(epsilon=EPSILONS[0])
    errors = sweep_cached(
        question.perturbation(slug),
        question.prepared_housing,
        EPSILONS[:1],
        question.delta,
        (widget.REPETITIONS, record.SEED),
    ).mse
    found = record.summary(errors)
    for name, values in found.items():
        assert BANDS[slug][name][0] == pytest.approx(values[0], rel=1e-4)
    ordered = np.sort(errors[0])
    assert ordered[99] <= BANDS[slug]["low"][0] * (1 + 1e-5)
    assert ordered[900] >= BANDS[slug]["high"][0] * (1 - 1e-5)


@pytest.mark.parametrize("slug", ["large_noise", "small_noise"])
def test_the_recorded_descents_agree_with_those_of_the_lab(slug):
    """The lab follows fewer descents, with other draws."""
    lab = View(RegressionQuestion(epsilon=EPSILONS[0])).regimes[slug]
    for i in (5, 20, 49):
        reached = lab.within(EPSILONS[i])
        assert BANDS[slug]["median"][i] == pytest.approx(reached.median, rel=0.04)
        assert reached.low * 0.99 < BANDS[slug]["median"][i] < reached.high * 1.01


def test_bands_contain_the_medians_and_what_is_beyond_the_axis_is_cut():
    for slug, quantiles in BANDS.items():
        rows = zip(
            *(quantiles[name] for name in ("low", "median", "high")), strict=True
        )
        assert all(low <= median <= high for low, median, high in rows)
        shown = METHODS[slug]
        for median, drawn, text in zip(
            quantiles["median"], shown["medians"], shown["texts"], strict=True
        ):
            assert drawn is None or drawn == pytest.approx(median, abs=1e-4)
            assert (drawn is None) == (median > TOP)
            assert float(text) == pytest.approx(median, rel=0.051)
        assert max(shown["highs"]) <= TOP
    assert min(BANDS["ssp"]["high"]) > TOP  # so only its lower edge is drawn
    assert [slug for slug, shown in METHODS.items() if not shown["wash"]] == ["ssp"]


def test_lines_have_the_colours_and_the_axes_of_the_standing_picture():
    """The script draws over the server's picture: colour, dash and scale must stay."""
    picture = str(widget.picture().wide)
    drawn = set(re.findall(r'class="line (s-[a-z ]+)" d="M', picture))
    assert {f"s-{m['colour']}{m['dash']}" for m in DATA["methods"]} <= drawn
    ticks = [text for _, text in DATA["axes"]["ticks"]]
    assert all(f">{text}</text>" in picture for text in ticks)
    for level in DATA["axes"]["baselines"]:
        assert level["words"] in picture
    for method in DATA["methods"]:
        assert method["label"] in picture


def test_the_names_are_in_a_corner_that_no_median_crosses():
    left, right = 38, widget.NARROW[0] - 14
    start = (right - widget.KEY_WIDTH - left) / (right - left) * DATA["axes"]["epsilon"]
    low, high = DATA["axes"]["error"]
    rows = (len(DATA["methods"]) + 1) * widget.KEY_GAP + 8  # and one for the guesses
    below = DATA["mean"] - rows * (high - low) / (widget.NARROW[1] - 26 - 44)
    for method in DATA["methods"]:
        for epsilon, median in zip(widget.SHOWN, method["medians"], strict=True):
            assert epsilon < start or median < below


def test_text_and_picture_compare_the_same_descent_and_say_its_learning_rate():
    """The rate from public bounds: the notebook's own is not private."""
    reached = BANDS["large_noise"]["median"][-1]
    assert chapter.compared_error("descent", 2.0) == reached
    assert chapter.compared_error("adassp", 2.0) == BANDS["adassp"]["median"][-1]
    for sub in (DATA["sub"], widget.picture().sub):
        assert "from public bounds" in sub
    assert float(chapter.error_at_the_private_rate(2.0)) < reached
