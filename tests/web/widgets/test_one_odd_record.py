"""One odd record: its numbers against numpy's least squares."""

import numpy as np
import pytest

from dpsgd_explorer.web.hub.examples import toy_problem as toy
from dpsgd_explorer.web.hub.registry import WIDGETS
from dpsgd_explorer.web.hub.widgets.one_odd_record import widget


def test_lines_and_gradients_are_those_of_least_squares():
    x, y = np.array(toy.records()).T
    without = np.polyfit(x[: toy.ODD], y[: toy.ODD], 1)
    assert widget.lines()[0] == pytest.approx(without)
    assert widget.lines()[1] == pytest.approx(np.polyfit(x, y, 1))
    residual = np.polyval(without, x) - y
    lengths = np.abs(residual) * np.hypot(x, 1)
    assert widget.gradient_lengths() == pytest.approx(lengths)
    assert widget.slope_without() == f"{without[0]:.2f}"
    assert widget.times_longer() == f"{lengths[-1] / lengths[:-1].max():.1f}"


def test_the_odd_record_is_the_odd_one():
    *others, odd = widget.gradient_lengths()
    assert odd > 5 * max(others)


@pytest.mark.parametrize("slug", WIDGETS)
def test_every_widget_with_the_24_records_has_the_same_odd_one(slug):
    data = WIDGETS[slug].data()
    if "odd" in data:
        assert data["records"] == widget.data()["records"]
        assert data["odd"] == toy.ODD


def test_the_script_gets_the_records_of_all_figures():
    data = widget.data()
    assert np.allclose(data["records"], toy.records(), atol=1e-6)
    for record in data["records"]:
        assert data["x_range"][0] < record[0] < data["x_range"][1]
        assert data["y_range"][0] < record[1] < data["y_range"][1]
