"""The chart of accuracy against ε: the order of its dots for eyes and arrow keys."""

import re

from dpsgd_explorer.web.figures.pareto import Dot, pareto_drawings


def dot(epsilon, place, name):
    return Dot(
        epsilon=epsilon,
        accuracy=80.0,
        place=place,
        link=f"/runs/{name}",
        words=name,
        spent=f"{epsilon:g}",
    )


def test_dots_follow_epsilon_and_an_equal_run_does_not_hide_the_front():
    dots = [dot(1.0, "on-front", "first"), dot(1.0, "beaten", "equal")]
    dots += [dot(2.0, "beaten", "worse"), dot(3.0, "on-front", "last")]
    for drawing in pareto_drawings("digits", dots):
        order = re.findall(r'href="/runs/(\w+)"', drawing)
        assert order == ["equal", "first", "worse", "last"]
