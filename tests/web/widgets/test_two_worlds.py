"""Two worlds: the limit against the exact curve, and what the browser trains.

The script's own modules run in node on the JSON that the page carries.
"""

import html
import json
import math
import re
import subprocess

import numpy as np
import pytest
from scipy import stats

from dpsgd_explorer.accounting import trade_off
from dpsgd_explorer.web.http import assets
from dpsgd_explorer.web.hub.examples import toy_problem as toy
from dpsgd_explorer.web.hub.examples.toy_training import STEPS, train
from dpsgd_explorer.web.hub.widgets.two_worlds import widget
from tests.in_order import in_order

SCRIPTS = assets.WIDGETS_DIR / "two_worlds"
SHARES = [0.0, 0.005, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 0.95, 1.0]
POINTS = [(0, 0), (0, 6), (0, 12), (1, 0), (1, 6), (2, 3), (2, 12)]
# Where the odd record lies at each point: its first place, or dragged somewhere.
PLACES = [None, None, (1.2, 3.0), (-1.2, 3.0), (-1.2, -3.0), (0.0, 0.8), (0.95, 2.5)]
FALSE_ALARM = 1e-6
ATTACK = """
import {attack, beyond, drawChance} from "%s/training.js";
import {mostHits} from "%s/limit.js";
import {readFileSync} from "node:fs";
const {data, points, places, shares} = JSON.parse(readFileSync(0, "utf8"));
const chances = [0, 1].map((world) => drawChance(20 + world, data));
const count = data.counts.at(-1);
console.log(JSON.stringify(points.map(([rate, noise], i) => {
  const record = places[i] ?? data.records[data.odd];
  const {scores, ends} = attack(data, chances, {bound: 1, record, count, rate, noise});
  const {lines} = data.rates[rate].points[noise];
  return {
    limits: shares.map((share) => mostHits(lines, share)),
    counts: [-1, 0, 1].map((cut) => scores.map((values) => beyond(values, cut))),
    ends: ends.map((values) => [...values]),
  };
})));
"""


@pytest.fixture(scope="module")
def trained():
    """Limits, counts of calls and finished lines at ``POINTS``, as the browser has."""
    asked = {
        "data": widget.data(),
        "points": POINTS,
        "places": PLACES,
        "shares": SHARES,
    }
    run = subprocess.run(
        ["node", "--input-type=module", "-e", ATTACK % (SCRIPTS, SCRIPTS)],
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(run.stdout)


def setting(point):
    rate, noise = point
    return widget.RATES[rate], widget.data()["noise"][noise]


def test_the_browser_reads_the_limit_close_to_the_exact_curve_and_never_below(trained):
    for point, found in zip(POINTS, trained, strict=True):
        exact = in_order(trade_off, *setting(point), STEPS, false_positive_rates=SHARES)
        for limit, curve in zip(found["limits"], exact, strict=True):
            assert limit <= curve + 0.012
            # Its values carry the slack of their own grid; δ(ε) is tighter.
            assert limit >= curve - 0.0015


def test_lines_are_what_the_pair_allows_rounded_up():
    for point in POINTS:
        rate, noise = setting(point)
        lines = widget.data()["rates"][point[0]]["points"][point[1]]["lines"]
        for slope, delta in lines:
            at = math.log(slope)
            exact = widget.EXACT.delta_bounds(
                [widget.Phase(rate, noise, STEPS)], [at], widget.RELATION
            )[0]
            assert delta >= exact.lower
            assert delta <= exact.upper + 2e-5 + 2e-5 * exact.upper * slope


def test_page_and_script_read_the_same_limit(trained):
    for point, found in zip(POINTS, trained, strict=True):
        lines = widget.data()["rates"][point[0]]["points"][point[1]]["lines"]
        mine = [widget.most_hits(lines, share) for share in SHARES]
        assert found["limits"] == pytest.approx(mine, abs=1e-12)


def test_no_attack_on_what_the_browser_trains_beats_the_limit(trained):
    """Counts may lie beyond by chance, as rarely as ``FALSE_ALARM``."""
    count = widget.COUNTS[-1]
    for point, found in zip(POINTS, trained, strict=True):
        rate, noise = setting(point)
        lines = widget.limit_lines(rate, noise)
        for alarms, hits in found["counts"]:
            # The largest rate of false alarms that would hardly give so few.
            rare = FALSE_ALARM / 2
            rate_up = stats.beta.ppf(1 - rare, alarms + 1, max(count - alarms, 1))
            limit = widget.most_hits(lines, float(rate_up))
            assert stats.binom.sf(hits - 1, count, limit) > rare, (point, alarms, hits)


def test_the_attack_is_no_straw_man(trained):
    """With little noise it comes close to what it may reach."""
    [(alarms, hits)] = [
        f["counts"][1] for p, f in zip(POINTS, trained, strict=True) if p == (0, 0)
    ]
    assert hits - alarms > 0.7 * widget.COUNTS[-1]


def test_the_browser_trains_as_the_server_does(trained):
    """Mean and spread of the finished lines, both worlds, against numpy's training."""
    many = 4000
    for point, place, found in zip(POINTS, PLACES, trained, strict=True):
        rate, noise = setting(point)
        records = [*toy.records()[: toy.ODD], place or toy.records()[toy.ODD]]
        for with_odd, ends in zip((False, True), found["ends"], strict=True):
            mine = train(
                many,
                with_odd=with_odd,
                sample_rate=rate,
                noise_multiplier=noise,
                max_grad_norm=1.0,
                seed=7,
                records=records,
            )
            theirs = np.array(ends).reshape(-1, 2)
            error = np.std(mine, axis=0) * math.sqrt(1 / many + 1 / len(theirs))
            gap = np.abs(mine.mean(axis=0) - theirs.mean(axis=0))
            assert (gap < 5 * error).all(), point  # seeded
            ratio = np.std(theirs, axis=0) / np.std(mine, axis=0)
            assert (np.abs(ratio - 1) < 0.12).all(), point


def test_without_noise_and_with_a_wide_bound_it_is_gradient_descent():
    [end] = train(
        1,
        with_odd=True,
        sample_rate=1.0,
        noise_multiplier=0.0,
        max_grad_norm=1e6,
        seed=1,
    )
    theta = np.zeros(2)
    points = np.array(toy.records())
    for _ in range(STEPS):
        gradients = [toy.gradient(tuple(theta), tuple(point)) for point in points]
        theta = theta - widget.LEARNING_RATE / toy.SIZE * np.sum(gradients, axis=0)
    assert end == pytest.approx(theta)


@pytest.mark.parametrize("place", [0, 6, 12])
def test_the_privacy_loss_of_full_batches_is_normal(place):
    noise = widget.data()["noise"][place]
    mu = math.sqrt(STEPS) / noise
    bins = widget.loss_bins(1.0, noise)
    top = in_order(widget.epsilon, 1.0, noise, STEPS, widget.DELTA)
    edges = np.linspace(-widget.REACH * top, widget.REACH * top, widget.BINS + 1)
    law = stats.norm(mu * mu / 2, mu)
    probabilities = np.diff(law.cdf(edges)) / bins["largest"]
    assert np.abs(np.array(bins["with"]) - probabilities).max() < 0.05
    assert np.abs(np.array(bins["without"]) - probabilities[::-1]).max() < 0.05


@pytest.mark.parametrize("point", POINTS)
def test_what_lies_beyond_the_band_makes_up_delta(point):
    beyond = widget.loss_bins(*setting(point))["beyond"]
    assert 0.75 < sum(beyond) < 1.01


def test_the_words_of_the_page_are_the_numbers_of_the_picture():
    title = widget.picture().title
    shown = widget.NOISE[widget.SHOWN_NOISE]
    assert title.startswith(f"The attacker is right {widget.shown_right(shown)} of")
    for noise in widget.NOISE[::3]:
        share = widget.right_calls(noise, widget.SHOWN_RATE, STEPS)
        assert 0.5 < share < widget.limits_at(noise).run + 0.04


def test_another_order_alone_moves_every_parameter():
    """Without noise and with the same records, batches decide where training ends."""
    settings = {"sample_rate": 0.5, "noise_multiplier": 0.0, "max_grad_norm": 1.0}
    ends = train(50, with_odd=True, **settings, seed=3)
    assert (np.ptp(ends, axis=0) > 0.05).all()
    assert len(np.unique(ends[:, 0])) == len(np.unique(ends[:, 1])) == 50


def test_an_audit_starts_with_many_trainings_and_few_false_alarms(reading):
    page = reading.get("/learn/auditing/").text
    [start] = re.findall(r'id="two-worlds"[^>]* data-start="([^"]*)"', page)
    positions = json.loads(html.unescape(start))
    assert positions == {"count": [max(widget.COUNTS)], "threshold": [1.5]}
    query = {name: f"{value:g}" for name, [value] in positions.items()}
    assert reading.get("/embed/two-worlds/", query_string=query).status_code == 200
    for slug in ("dp-concepts", "what-models-leak"):
        assert "data-start=" not in reading.get(f"/learn/{slug}/").text


def test_text_and_picture_name_the_trainings_that_they_count(reading):
    page = html.unescape(reading.get("/learn/what-models-leak/").text)
    figure = re.search(r'<figure[^>]*id="two-worlds".*?</figure>', page, re.DOTALL)[0]
    still, live = figure.split("data-live", 1)
    assert f"{widget.MANY:,} per world in this picture" in still
    assert "data-count" not in live  # the stage of this chapter has no such control
    scatter = 100 * 2 * math.sqrt(0.25 / widget.COUNTS[0])
    text = page.replace(figure, "")
    assert f"Your browser runs {widget.COUNTS[0]} trainings per world" in text
    assert f"only to within about {scatter:.0f} points" in text
