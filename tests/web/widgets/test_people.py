"""A person with several records: the bounds that are printed, and what they allow."""

import math
import re

import pytest

from dpsgd_explorer.accounting import delta
from dpsgd_explorer.web.hub.widgets.people import group_privacy as group
from dpsgd_explorer.web.hub.widgets.people import widget

POINTS = widget.data()["points"]


@pytest.mark.parametrize("point", POINTS, ids=lambda point: str(point["records"]))
def test_what_is_printed_is_not_below_the_bound(point):
    epsilon = group.group_epsilon(point["records"])
    assert epsilon <= float(point["epsilon"]) < epsilon + 0.01
    right = (math.exp(epsilon) + group.DELTA) / (1 + math.exp(epsilon))
    if point["limits"] is None:
        assert right > 0.9999995
    else:
        alone = re.search(r"ε alone: ([\d.]+) %", point["limits"])[1]
        assert right <= float(alone) / 100 < 1


def test_the_limit_of_this_run_is_that_of_one_record_and_else_not_stated():
    one, *more = POINTS
    reached = re.search(r"this run: ([\d.]+) %", one["limits"])[1]
    [run] = group.run_phases()
    at_zero = delta(
        sample_rate=run.sample_rate,
        noise_multiplier=run.noise_multiplier,
        steps=run.steps,
        epsilon=0.0,
    )
    assert float(reached) == pytest.approx(50 * (1 + at_zero), abs=0.1)
    assert float(reached) >= 50 * (1 + at_zero)
    for point in more:
        assert point["limits"] is None or "not computed here" in point["limits"]


def test_more_records_are_bounded_by_more_than_their_number():
    values = [point["value"] for point in POINTS]
    assert values[0] == pytest.approx(group.TARGET, abs=0.001)
    assert all(
        value > point["records"] * values[0]
        for value, point in zip(values[1:], POINTS[1:], strict=True)
    )
