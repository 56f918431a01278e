"""The small curve on a preset's card is the recorded run."""

import itertools
import re

import pytest

from dpsgd_explorer.experiments.presets import PRESETS
from dpsgd_explorer.web.figures.spark import HEIGHT, WIDTH, spark
from dpsgd_explorer.web.recorded.runs import recorded

POINT = re.compile(r"(-?[\d.]+) (-?[\d.]+)")


@pytest.mark.parametrize("preset", PRESETS, ids=lambda preset: preset.slug)
def test_a_spark_rises_and_falls_with_the_recorded_accuracy(preset):
    events = recorded(preset.slug).data("evaluation")
    path = re.search(r'd="([^"]+)"', spark(events))[1]
    points = [(float(x), float(y)) for x, y in POINT.findall(path)]
    assert len(points) == len(events)
    assert all(0 <= x <= WIDTH and 0 <= y <= HEIGHT for x, y in points)
    for (earlier, later), ((x, y), (next_x, next_y)) in zip(
        itertools.pairwise(events),
        itertools.pairwise(points),
        strict=True,
    ):
        assert next_x >= x
        gain = later["test_accuracy"] - earlier["test_accuracy"]
        assert gain * (next_y - y) <= 0  # heights count downwards
