"""The pictures: every number against another way to compute it."""

import itertools
import math
import re
import statistics
from functools import partial
from xml.etree import ElementTree

import pytest
from scipy import integrate

from dpsgd_explorer.accounting import (
    epsilon,
    gaussian_epsilon,
)
from dpsgd_explorer.web.figures import odds
from dpsgd_explorer.web.figures import recorded_run as run
from dpsgd_explorer.web.figures.svg import Plot
from dpsgd_explorer.web.hub.chapters.dp_concepts import tail
from dpsgd_explorer.web.hub.chapters.privacy_accounting.growth import growth, ratio
from dpsgd_explorer.web.hub.chapters.sgd_basics import figures as descent
from dpsgd_explorer.web.hub.examples import toy_problem as toy
from dpsgd_explorer.web.hub.examples.classic_run import classic_plan
from dpsgd_explorer.web.hub.widgets.accountant_race import widget as accountant_race
from dpsgd_explorer.web.hub.widgets.microscope import dpsgd_step as microscope
from dpsgd_explorer.web.hub.widgets.noise_to_signal import batch_costs
from dpsgd_explorer.web.hub.widgets.randomised_response import survey as response
from dpsgd_explorer.web.hub.widgets.three_way_twin import widget as three_way_twin
from dpsgd_explorer.web.labs.regression import figures as regression
from dpsgd_explorer.web.labs.regression.page import PRESETS
from dpsgd_explorer.web.labs.regression.question import RegressionQuestion
from dpsgd_explorer.web.labs.regression.results import REGIMES, View
from dpsgd_explorer.web.pages.home import SHOWN_RUN, TWIN
from dpsgd_explorer.web.recorded.runs import recorded
from tests.web.chapter_pictures import chapter_pictures

PICTURES = chapter_pictures() | {
    "odds": odds.odds_picture,
    "race": accountant_race.picture,
    "twins": three_way_twin.picture,
    "batch": batch_costs.batch_picture,
    "accuracy": lambda: run.accuracy_picture(recorded(SHOWN_RUN), recorded(TWIN)),
}
SLACK = 24  # words may hang over the frame of the view box by so much


@pytest.fixture(params=PICTURES, scope="module")
def picture(request):
    return PICTURES[request.param]()


def drawings(picture):
    return [ElementTree.fromstring(svg) for svg in (picture.wide, picture.narrow)]


def test_every_large_number_of_a_table_has_thousands_separators(picture):
    cells = [str(cell) for row in picture.rows for cell in row]
    assert cells
    assert [cell for cell in cells if re.fullmatch(r"\d{5,}(\.\d+)?", cell)] == []


def test_every_mark_is_finite_and_on_the_paper(picture):
    for svg in drawings(picture):
        _, _, width, height = map(float, svg.get("viewBox").split())
        for mark in svg.iter():
            for name, limit in (("x", width), ("cx", width), ("y", height)):
                at = float(mark.get(name, 0))
                assert -SLACK <= at <= limit + SLACK, ElementTree.tostring(mark)
            numbers = re.findall(r"-?[\d.]+", mark.get("d", ""))
            assert all(math.isfinite(float(number)) for number in numbers)
        assert "nan" not in ElementTree.tostring(svg, "unicode")


def test_every_point_of_every_figure_lies_inside_its_plot(monkeypatch):
    """Lines, areas and dots are given in data units; none may leave the scales."""
    outside, seen = [], []

    def watched(draw):
        def drawn(plot, points, *rest, **more):
            many = [points] if isinstance(points[0], int | float) else list(points)
            seen.append(len(many))
            outside.extend(
                (figure, at)
                for at in many
                if not all(map(within, (plot.x, plot.y), at))
            )
            return draw(plot, points, *rest, **more)

        return drawn

    for name in ("line", "area", "dot"):
        monkeypatch.setattr(Plot, name, watched(getattr(Plot, name)))
    for figure, draw in everything():  # noqa: B007  read by `drawn`
        draw()
    assert outside == []
    assert len(seen) > 60


def within(scale, value):
    margin = 1e-9 * (scale.high - scale.low)
    return scale.low - margin <= value <= scale.high + margin


def everything():
    """Yield each figure that the server draws, of pages and of the regression lab."""
    for name, draw in PICTURES.items():
        if hasattr(draw, "cache_clear"):
            draw.cache_clear()
        yield name, draw
    asked = {preset.label: preset.settings for preset in PRESETS}
    beyond = {"noise_multiplier": 10, "steps": 400}  # further than the axis of ε
    for label, settings in (asked | {"beyond": beyond}).items():
        view = View(RegressionQuestion(**settings), waits=("", *REGIMES))
        for name, draw in regression.PICTURES.items():
            yield f"{label}: {name}", partial(draw, view)


def test_a_picture_has_a_conclusion_a_message_and_a_table(picture):
    assert re.search(r"\d", picture.title)
    assert not picture.title.endswith(".")
    for svg in drawings(picture):
        assert len(svg.get("aria-label").split()) >= 8
    assert picture.rows
    assert all(len(row) == len(picture.head) for row in picture.rows)


def test_colours_come_from_classes_alone(picture):
    for svg in drawings(picture):
        for mark in svg.iter():
            assert not {"style", "fill", "stroke"} & set(mark.keys())


def test_grey_lines_without_privacy_are_dashed_in_every_picture(picture):
    for svg in drawings(picture):
        for css in (mark.get("class", "").split() for mark in svg.iter()):
            if "line" in css and "s-twin" in css:
                assert {"dashed", "dotted"} & {*css}, css


def test_the_survey_s_error_is_that_of_all_possible_outcomes():
    """Enumerate how many of 12 sheets say yes, for 12 people drawn at random."""
    n, share = 12, response.TRUE_SHARE
    p = response.truth_probability(1.0)
    yes = share * p + (1 - share) * (1 - p)
    chances = [math.comb(n, k) * yes**k * (1 - yes) ** (n - k) for k in range(n + 1)]
    estimates = [(k / n - (1 - p)) / (2 * p - 1) for k in range(n + 1)]
    mean = sum(c * e for c, e in zip(chances, estimates, strict=True))
    spread = sum(c * (e - mean) ** 2 for c, e in zip(chances, estimates, strict=True))
    assert mean == pytest.approx(share)
    assert response.standard_error(1.0, n) == pytest.approx(math.sqrt(spread))


def test_two_coins_let_the_truth_through_three_times_in_four():
    coins = itertools.product("HT", repeat=2)
    true = [first == "H" or second == "H" for first, second in coins]  # truth: yes
    assert response.truth_probability(response.SURVEY_EPSILON) == pytest.approx(
        statistics.fmean(true)
    )


def test_the_shaded_area_is_delta():
    def excess(x):
        return max(tail.density(x, 1) - math.exp(tail.EPSILON) * tail.density(x, 0), 0)

    area, _ = integrate.quad(excess, -10, 20, points=[1.5], limit=200)
    assert f"{area:.3f} at ε = 1" in tail.tail_picture().title


def test_leaving_out_a_record_changes_only_its_own_batches():
    odd_first = next(i for i, b in enumerate(descent.batches()) if toy.ODD in b)
    with_all, without = descent.path(), descent.path(without=toy.ODD)
    assert with_all[: odd_first + 1] == without[: odd_first + 1]
    assert with_all[odd_first + 1] != without[odd_first + 1]


def test_an_epoch_of_the_toy_uses_every_record_once():
    steps = toy.SIZE // descent.BATCH_SIZE
    epoch = itertools.chain(*descent.batches()[:steps])
    assert sorted(epoch) == list(range(toy.SIZE))


def test_a_toy_gradient_is_the_slope_of_its_loss():
    a, b, record, h = 0.3, -0.2, (0.7, 1.1), 1e-6

    def loss(a, b):
        return (a * record[0] + b - record[1]) ** 2 / 2

    slope = (loss(a + h, b) - loss(a - h, b)) / (2 * h)
    intercept = (loss(a, b + h) - loss(a, b - h)) / (2 * h)
    assert toy.gradient((a, b), record) == pytest.approx((slope, intercept))


def test_the_odd_record_moves_the_end_most():
    moves = descent.moves()
    assert max(moves) == moves[toy.ODD]


def test_the_microscope_clips_sums_and_divides_by_what_was_expected():
    now = microscope.step()
    bound = microscope.MAX_GRAD_NORM
    for before, after in zip(now.gradients, now.clipped, strict=True):
        assert toy.norm(after) <= bound * (1 + 1e-12)
        if toy.norm(before) <= bound:
            assert after == before
        else:
            assert toy.angle(before, after) == pytest.approx(0, abs=1e-4)
    expected = microscope.SAMPLE_RATE * toy.SIZE
    assert now.clipped_mean[0] == pytest.approx(
        sum(g[0] for g in now.clipped) / expected
    )
    assert len(now.gradients) != expected  # the picture shows that the two differ


def test_the_microscope_s_noise_has_the_size_it_says():
    """Variance of 400 draws within four of its standard errors; seeded."""
    now = microscope.step()
    scale = microscope.NOISE_MULTIPLIER * microscope.MAX_GRAD_NORM
    scale /= microscope.EXPECTED_BATCH_SIZE
    noise = [r[i] - now.clipped_mean[i] for r in now.releases for i in (0, 1)]
    variance = statistics.fmean(z * z for z in noise)
    assert abs(variance / scale**2 - 1) < 4 * math.sqrt(2 / len(noise))


def test_counting_more_of_what_happens_never_gives_more():
    plan = classic_plan()
    for count in growth((1, 10, 1_000, plan.steps)):
        assert count.sampled < count.composed <= count.summed * (1 + 1e-12)
    end = growth((plan.steps,))[0]
    assert end.sampled == epsilon(
        sample_rate=plan.sample_rate,
        noise_multiplier=1.1,
        steps=plan.steps,
        delta=1e-5,
        accountant="exact",
    )
    assert end.composed == gaussian_epsilon(
        delta=1e-5, noise_multiplier=1.1, steps=plan.steps
    )
    for upper, lower in (("summed", "composed"), ("composed", "sampled")):
        stated = float(ratio(upper, lower).replace(",", ""))
        value = getattr(end, upper) / getattr(end, lower)
        assert stated == pytest.approx(value, rel=0.05)


def test_small_batches_spend_less_and_carry_more_noise():
    costs = batch_costs.batch_costs()
    for small, large in itertools.pairwise(costs):
        assert small.epsilon_at_fixed_noise < large.epsilon_at_fixed_noise
        assert small.noise_per_update > large.noise_per_update
        assert small.steps > large.steps


def test_the_twin_stands_where_the_private_run_had_spent_as_much():
    private, twin = recorded(SHOWN_RUN), recorded(TWIN)
    spent = [e for e, _ in run.spent_and_accuracy(twin, private)]
    told = [e["epsilon"] for e in private.data("evaluation")]
    assert spent == pytest.approx(told, rel=1e-6)  # the accountant says so much
