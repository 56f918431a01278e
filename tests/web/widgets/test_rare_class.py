"""A rare digit: every dot and sentence of the widget is the recording's."""

from statistics import fmean

import pytest

from dpsgd_explorer.web.hub.widgets.rare_class import readings, widget
from dpsgd_explorer.web.hub.widgets.rare_class.readings import stored

LEVELS = pytest.mark.parametrize(
    ("place", "level"), [*enumerate(readings.levels())], ids=readings.levels()
)


def runs(records, level):
    """Return the recorded runs of a level at the rate with the best mean accuracy."""
    tried = stored()["data"][records]["runs"][level].values()
    return max(tried, key=lambda seeds: fmean(run["accuracy"] for run in seeds))


@LEVELS
def test_every_dot_is_a_recorded_run_and_on_the_axis(place, level):
    shown = widget.data()["levels"][place]
    rare, whole = runs("rare", level), runs("whole", level)
    recorded = [
        ([run["accuracy"] for run in rare], shown["average"]),
        *(
            ([run["by_class"][digit] for run in rare], shown["digits"][digit])
            for digit in range(10)
        ),
        ([run["by_class"][stored()["rare_class"]] for run in whole], shown["frequent"]),
    ]
    low, high = widget.data()["axis"]
    for shares, reading in recorded:
        percents = [100 * share for share in shares]
        assert reading["each"] == pytest.approx(percents, abs=0.005)
        assert reading["mean"] == pytest.approx(fmean(percents), abs=0.005)
        assert float(reading["words"]) == pytest.approx(fmean(percents), abs=0.0501)
        assert low < min(percents) <= max(percents) < high


@LEVELS
def test_a_level_without_noise_is_called_not_private(place, level):
    shown = widget.data()["levels"][place]
    is_private = all(run["epsilon"] for run in runs("rare", level))
    assert is_private == ("not private" not in shown["name"])
    words = shown["conclusion"]
    assert is_private == ("not private" not in words and "Without" not in words)


@LEVELS
def test_the_sentence_says_the_gap_of_the_dots(place, level):
    shown = widget.data()["levels"][place]
    rare = shown["digits"][widget.data()["rare"]]
    gap = shown["average"]["mean"] - rare["mean"]
    assert widget.gap(level) == pytest.approx(gap, abs=0.01)
    for part in (rare["words"], shown["average"]["words"], f"about {gap:.0f} points"):
        assert part in shown["conclusion"]


def test_the_average_hides_who_pays():
    """At each level the rare digit is last by far, and privacy widens its gap."""
    data = widget.data()
    for level in data["levels"]:
        rare = level["digits"][data["rare"]]
        others = [one for i, one in enumerate(level["digits"]) if i != data["rare"]]
        assert max(rare["each"]) < min(min(one["each"]) for one in others) - 10
    ordinary, _, three, one = map(widget.gap, readings.levels())
    assert ordinary < three < one
    before, after = data["levels"][0], data["levels"][-1]
    lost = before["average"]["mean"] - after["average"]["mean"]
    assert f"the average lower by {lost:.1f} points" in after["change"]
    digit = data["rare"]
    lost = before["digits"][digit]["mean"] - after["digits"][digit]["mean"]
    assert f"the rare {digit} lower by {lost:.1f} points" in after["change"]
    assert "higher" in data["levels"][1]["change"]  # clipped only, at its own rate


def test_it_starts_at_the_level_that_the_guesses_are_about():
    data = widget.data()
    assert data["levels"][data["first"]]["name"] == readings.LEAST
    assert widget.picture() is readings.rare_picture()


def test_without_script_a_table_has_every_mean_that_the_script_shows():
    head, rows = widget.table()
    assert [row[0] for row in rows] == [one["name"] for one in widget.data()["levels"]]
    for row, level in zip(rows, readings.levels(), strict=True):
        means = [fmean(run["accuracy"] for run in runs("rare", level))]
        for digit in range(10):
            means.append(fmean(run["by_class"][digit] for run in runs("rare", level)))
        assert len(row) == len(head)
        percents = [100 * mean for mean in means]
        assert list(map(float, row[1:])) == pytest.approx(percents, abs=0.0501)


@LEVELS
def test_the_misread_pictures_are_those_of_the_recorded_runs(place, level):
    """Recorded apart: as many are misread as the run with the same seed counted."""
    one, label = readings.misread(), readings.rare_digit()
    seed = stored()["seeds"].index(one["seed"])
    share = runs("rare", level)[seed]["by_class"][label]
    assert one["misread"][level] == round((1 - share) * one["records"])
    shown = widget.data()["levels"][place]
    assert f" {one['misread'][level]} of all {one['records']} " in shown["misread"]
    for picture, answer in zip(one["pictures"], shown["answers"], strict=True):
        assert len(picture["shades"]) == 28 * 28
        if level in (readings.ORDINARY, readings.LEAST):
            assert (answer == label) == (level == readings.ORDINARY)
