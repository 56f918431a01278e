"""Rules of axes, which exist twice: the server and the scripts have the same ticks."""

import json
import subprocess
from itertools import pairwise
from pathlib import Path

import pytest

from dpsgd_explorer.web.charts import ticks

RANGES = [(0, 99.5), (75, 90), (70, 90), (75, 99.5), (50, 99.5), (40, 65), (65, 80)]
RANGES += [(66.3, 90.1), (82, 86), (97.2, 99.4), (0, 99.99), (12.5, 60)]
ENDS = [0.012, 0.3, 1, 3, 7.5, 60, 300, 520.2, 8_000, 60_000, 123_456]
USUAL, PERCENTS = (75, 90), [[], [76, 90], [72, 80], [80, 98.2], [0, 100]]
SCRIPT = """
import * as ticks from "%s/static/js/charts/ticks.js";
import {readFileSync} from "node:fs";
const {ranges, ends, usual, percents} = JSON.parse(readFileSync(0, "utf8"));
const written = (values) => values.map((value) => [value, ticks.tickText(value)]);
console.log(JSON.stringify({
  error: ranges.map((range) =>
    written(ticks.errorTicks(range))
      .map(([at, text]) => [ticks.height(at, range), text])),
  nice: ends.map((end) => [4, 6].map((count) => written(ticks.niceTicks(end, count)))),
  spaced: ranges.map((range) => ticks.spaced(range, 5)),
  ceilings: ends.map(ticks.niceCeiling),
  ranges: percents.map((values) => ticks.errorRange(usual, values)),
}));
"""


def listed(value):
    """Return a value with lists for tuples, as JSON has it."""
    return json.loads(json.dumps(value))


def test_the_rules_of_the_server_and_of_the_scripts_are_the_same():
    source = SCRIPT % Path(__file__).parents[3]
    given = {"ranges": RANGES, "ends": ENDS, "usual": USUAL, "percents": PERCENTS}
    done = subprocess.run(
        ["node", "--input-type=module", "-e", source],
        input=json.dumps(given),
        capture_output=True,
        text=True,
        check=True,
    )
    scripts = json.loads(done.stdout)
    for ours, theirs in zip(
        map(ticks.error_ticks, RANGES), scripts["error"], strict=True
    ):
        assert [text for _, text in ours] == [text for _, text in theirs]
        assert [at for at, _ in ours] == pytest.approx([at for at, _ in theirs])
    assert scripts["nice"] == [
        [listed(ticks.nice_ticks(end, count)) for count in (4, 6)] for end in ENDS
    ]
    assert scripts["spaced"] == [ticks.spaced(ends, 5) for ends in RANGES]
    assert scripts["ceilings"] == pytest.approx([ticks.nice_ceiling(e) for e in ENDS])
    assert scripts["ranges"] == [
        list(ticks.error_range(USUAL, percents)) for percents in PERCENTS
    ]


@pytest.mark.parametrize("ends", RANGES)
def test_ticks_of_accuracies_are_on_the_axis_and_apart(ends):
    at = [position for position, _ in ticks.error_ticks(ends)]
    low, high = (ticks.error_height(end, ends) for end in ends)
    assert len(at) >= 3
    assert at == sorted(at)
    assert low <= at[0] <= at[-1] <= high
    least = min(right - left for left, right in pairwise(at))
    assert least >= ticks.APART * (high - low) - 1e-12
