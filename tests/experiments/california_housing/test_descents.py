import json
import threading

import numpy as np
import pytest

from dpsgd_explorer.errors import QuotaError
from dpsgd_explorer.experiments.california_housing import descents
from dpsgd_explorer.experiments.california_housing.descents import (
    DescentSpec,
    PreparedHousing,
    as_entry,
    compute,
    trace,
)
from tools.record.descents import specs


def short(**changed):
    return DescentSpec(
        **{"noise_multiplier": 50.0, "steps": 20, "repetitions": 3} | changed
    )


def test_the_recorded_descents_are_those_the_tool_makes():
    assert set(descents.recorded()) == set(specs())


def test_a_recorded_descent_is_what_the_computation_gives():
    [spec] = [w for w in specs() if (w.rate, w.rate_factor) == ("notebook", 1.0)]
    entry = json.loads(json.dumps(as_entry(spec, compute(spec))))
    [known] = [
        entry
        for entry in json.loads(descents.RECORDED.read_text(encoding="utf-8"))
        if (entry["spec"]["rate"], entry["spec"]["rate_factor"]) == ("notebook", 1.0)
    ]
    assert entry["spec"] == known["spec"]
    assert entry["steps"] == known["steps"]
    np.testing.assert_allclose(entry["median"], known["median"], rtol=1e-4)


def test_recorded_walks_end_where_the_golden_ones_do(golden):
    ends = {
        spec.rate_factor: found.spreads[-1].median
        for spec, found in descents.recorded().items()
        if spec.rate == "notebook"
    }
    wanted = golden["noisygd"]
    kinds = ("large_noise", "lr_x10", "lr_div10")
    final = {name: wanted[name]["final_mse"] for name in kinds}
    assert ends[1.0] == pytest.approx(final["large_noise"]["median"], abs=0.002)
    assert ends[0.1] == pytest.approx(final["lr_div10"]["median"], abs=0.004)
    quantiles = final["lr_x10"]["quantiles"]
    assert quantiles["0.25"] < ends[10.0] < quantiles["0.75"]


def test_a_short_walk_is_computed_and_a_diverging_one_is_infinite():
    assert short().is_at_hand
    assert np.isfinite(trace(short()).spreads[-1].median)
    lost = trace(short(rate_factor=1e6, steps=400))
    assert lost.spreads[-1].median == np.inf
    assert as_entry(short(), lost)["median"][-1] is None


def test_one_long_walk_at_a_time(monkeypatch):
    monkeypatch.setattr(descents, "SHORT", 10)
    monkeypatch.setattr(descents, "_long_descent", threading.Lock())
    assert not short(seed=9).is_at_hand
    trace(short(seed=9))
    with (
        descents._long_descent,
        pytest.raises(QuotaError, match="another long descent"),
    ):
        trace(short(seed=9))
    trace(short(seed=9))


def test_errors_are_judged_by_the_labels_as_they_are():
    prepared_housing = PreparedHousing(y_bound=2.0)
    assert prepared_housing.table.y.max() == 2.0
    assert prepared_housing.evaluation_set.mse == PreparedHousing().evaluation_set.mse
    assert (
        prepared_housing.evaluation_set.mse_of(prepared_housing.statistics.theta) > 1.0
    )
