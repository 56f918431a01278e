"""A person with several records: the values that are printed, and what they allow."""

import math
import re

import pytest

from dpsgd_explorer import accounting
from dpsgd_explorer.web.hub.widgets.people import group_privacy as group
from dpsgd_explorer.web.hub.widgets.people import widget

POINTS = widget.data()["points"]


@pytest.mark.parametrize("point", POINTS, ids=lambda point: str(point["records"]))
def test_what_is_printed_is_not_below_epsilon_and_the_limits(point):
    records = point["records"]
    [run] = group.run_phases()
    spent = accounting.group_epsilon_interval([run], group.DELTA, records)
    assert spent.status == "exact"
    assert spent.value <= float(point["epsilon"]) < spent.value + 0.01
    at_zero = accounting.group_delta_interval([run], 0.0, records).value
    alone = (math.exp(spent.value) + group.DELTA) / (1 + math.exp(spent.value))
    printed = re.fullmatch(
        r"this run: ([\d.]+) %; ε alone: ([\d.]+) %", point["limits"]
    )
    for text, limit in zip(printed.groups(), ((1 + at_zero) / 2, alone), strict=True):
        assert limit <= float(text) / 100 < limit + 0.001


def test_more_records_cost_more_than_their_number_and_less_than_the_chain():
    values = [point["value"] for point in POINTS]
    assert values[0] == pytest.approx(group.TARGET, abs=0.001)
    for records, value in enumerate(values[1:], 2):
        assert records * values[0] < value < group.chained_epsilon(records)


@pytest.mark.parametrize("records", [2, 5])
def test_the_chain_is_the_least_that_one_record_s_curve_gives(records):
    """Against a search over a grid of pairs (ε, δ(ε)) of one record."""
    bound = group.chained_epsilon(records)
    for share, fits in ((0.98, False), (1.02, True)):
        one = share * bound / records
        curve = accounting.delta_interval(group.run_phases(), one)
        chained = float(curve)
        for _ in range(records - 1):  # one more record: δ' = e^ε δ' + δ
            chained = math.exp(one) * chained + float(curve)
        assert (chained <= 1e-5) == fits
