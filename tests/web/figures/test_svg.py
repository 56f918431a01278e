"""Drawings: scales, escaping, and marks that stay on the paper."""

from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsgd_explorer.web.figures.svg import Plot, Scale


@settings(deadline=None)
@given(low=st.floats(0.01, 10), factor=st.floats(1.5, 100), log=st.booleans())
def test_a_scale_sends_its_ends_to_its_ends(low, factor, log):
    scale = Scale(low, low * factor, 20, 320, log)
    assert scale(low) == pytest.approx(20)
    assert scale(low * factor) == pytest.approx(320)


def test_equal_factors_are_equal_ways_on_a_log_scale():
    scale = Scale(0.1, 10, 0, 200, log=True)
    assert scale(1) == pytest.approx(100)
    assert scale.spread(3) == pytest.approx([0.1, 1, 10])
    assert Scale(0, 10, 0, 200).spread(3) == [0, 5, 10]


def test_up_in_the_data_is_up_on_the_page():
    plot = Plot.framed((200, 100), (0, 1), (0, 1))
    assert plot.y(1) < plot.y(0)
    plot.line([(0, 0), (1, 1)], "s-private")
    path = ElementTree.fromstring(plot.svg("rising")).find("path")
    assert path.get("d") == "M36 56L188 26"
    assert path.get("class") == "line s-private"


def test_points_inside_a_level_piece_are_left_out():
    plot = Plot.framed((200, 100), (0, 4), (0, 1))
    points = [(0, 0), (1, 0), (2, 0), (3, 1), (4, 1)]
    plot.line(points, "s-private")
    plot.path(points, "s-private", every_point=True)
    plot.line([(0, 0), (4, 0), (1, 0)], "s-private")  # turns back
    lines = [ElementTree.fromstring(mark).get("d") for mark in plot.marks]
    assert lines == [
        "M36 56L112 56L150 26L188 26",
        "M36 56L74 56L112 56L150 26L188 26",
        "M36 56L188 56L74 56",
    ]


def test_words_are_escaped_and_the_message_is_spoken():
    plot = Plot.framed((200, 100), (0, 1), (0, 1))
    plot.text((0, 0), "a < b & c")
    svg = ElementTree.fromstring(plot.svg('says "no"'))
    assert svg.get("role") == "img"
    assert svg.get("aria-label") == 'says "no"'
    assert svg.find("text").text == "a < b & c"


def test_an_area_is_closed_on_its_level():
    plot = Plot.framed((200, 100), (0, 1), (0, 1))
    plot.area([(0, 1), (1, 1)], "f-area", 0)
    assert plot.marks == ['<path class="f-area" d="M36 56L36 26L188 26L188 56Z"/>']


def test_a_bar_has_no_negative_size():
    plot = Plot.framed((200, 100), (0, 1), (0, 1))
    plot.bar((1, 0), (1, 0), "f-area")
    box = ElementTree.fromstring(plot.marks[0])
    assert (box.get("width"), box.get("height")) == ("152", "30")


def test_nothing_is_drawn_for_an_arrow_without_length():
    plot = Plot.framed((200, 100), (0, 1), (0, 1))
    plot.arrow((0.5, 0.5), (0.5, 0.5), "s-good", "f-good")
    assert plot.marks == []
