"""Figures with a slider: lines, texts and titles have one entry for each position."""

import json
import re
from xml.etree import ElementTree

import pytest

from dpsgd_explorer.web.figures.svg import Frames
from tests.web.chapter_pictures import chapter_pictures

PICTURES = chapter_pictures()


@pytest.mark.parametrize("name", PICTURES)
def test_every_position_has_a_title_and_a_point_of_each_line(name):
    picture = PICTURES[name]()
    drawings = [ElementTree.fromstring(svg) for svg in (picture.wide, picture.narrow)]
    tracks = [svg.findall(".//g[@data-track]") for svg in drawings]
    if not picture.frames:
        assert tracks == [[], []]
        return
    frames, count = picture.frames, len(picture.frames.places)
    assert picture.title == frames.titles[frames.still]
    assert len(set(frames.titles)) == count
    assert len(tracks[0]) == len(tracks[1]) > 0
    for track in tracks[0] + tracks[1]:
        points = re.findall(r"[ML]([-\d.]+) ([-\d.]+)", track.find("path").get("d"))
        assert len(points) == count
        rider = track.find("g").get("transform")
        at = re.findall(r"[-\d.]+", rider)
        assert [float(value) for value in at] == pytest.approx(
            [float(value) for value in points[frames.still]], abs=0.06
        )
        if words := json.loads(track.get("data-words", "null")):
            assert len(words) == count
            assert "".join(track.find(".//text").itertext()) == words[frames.still]


def test_a_slider_needs_as_many_titles_as_positions():
    with pytest.raises(ValueError, match="titles"):
        Frames(name="Step", places=("0", "1"), titles=("one",), still=0)
