"""What the ridge pulls: the widget ships what the library releases."""

import numpy as np
import pytest

from dpsgd_explorer.experiments.california_housing.descents import PreparedHousing
from dpsgd_explorer.regression import adassp, ssp
from dpsgd_explorer.web.hub.widgets.ridge_pull import widget

DATA = widget.data()
RELEASED = {"with": adassp, "without": ssp}


@pytest.mark.parametrize("way", RELEASED)
def test_points_and_errors_are_those_of_the_library(way):
    table = PreparedHousing().table
    found = RELEASED[way](
        table.X,
        table.y,
        epsilon=widget.EPSILONS[widget.FIRST],
        delta=widget.DELTA,
        y_bound=5.0,
        rng=np.random.default_rng(widget.SEED),
        repetitions=widget.RELEASES,
    ).theta
    shown = DATA["ways"][way][widget.FIRST]
    assert len(shown["points"]) + shown["outside"] == widget.RELEASES
    inside = [p for p in found[:, :2].round(2).tolist() if widget._is_inside(p)]
    assert shown["points"] == pytest.approx(np.array(inside), abs=0.011)
    errors = PreparedHousing().evaluation_set.mse_of(found)
    assert float(shown["error"]) == pytest.approx(np.median(errors), rel=0.06)


def test_the_ridge_alone_pulls_to_zero_and_more_at_a_smaller_epsilon():
    sizes = [np.hypot(*point["still"]) for point in DATA["ways"]["with"]]
    assert sizes == sorted(sizes)
    assert sizes[-1] < np.hypot(*DATA["solution"])
    assert sizes[0] < sizes[-1] / 2
    for point in DATA["ways"]["without"]:
        assert point["still"] == pytest.approx(DATA["solution"], abs=0.02)


def test_the_pulled_releases_predict_better_at_every_epsilon():
    pairs = zip(DATA["ways"]["with"], DATA["ways"]["without"], strict=True)
    assert all(float(a["error"]) < float(b["error"]) for a, b in pairs)


def test_the_standing_picture_names_both_ends():
    picture = widget.picture()
    for drawing in (picture.wide, picture.narrow):
        assert ">not private</text>" in drawing
        assert ">zero</text>" in drawing
    assert not picture.is_private
