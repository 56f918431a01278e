"""The small picture of a record: each pixel in its grey."""

import re

from dpsgd_explorer.training.attack import shades
from dpsgd_explorer.training.datasets import registry
from dpsgd_explorer.web.labs.attack.grey_picture import grey_picture
from dpsgd_explorer.web.labs.attack.page import recorded_attack


def painted(svg, width, height):
    """Return rows of digits from the paths of a picture."""
    rows = [["0"] * width for _ in range(height)]
    for shade, path in re.findall(r'fill="#(\w)\1\1" d="([^"]*)"', svg):
        for x, y, length in re.findall(r"M(\d+) (\d+)h(\d+)v1", path):
            rows[int(y)][int(x) : int(x) + int(length)] = [shade] * int(length)
    return ["".join(row) for row in rows]


def test_every_pixel_has_its_grey():
    rows = ["00ff0", "1aa20", "00000"]
    assert painted(grey_picture(rows, "a"), 5, 3) == rows


def test_words_for_those_who_do_not_see_it_are_escaped():
    assert 'aria-label="a &lt;b&gt; &#34;c&#34;"' in grey_picture(["0f"], 'a <b> "c"')


def test_the_recorded_record_is_that_of_the_data_set():
    config, events = recorded_attack()
    record = events[0]["data"]["record"]
    train, _ = registry.load(config.dataset)
    assert record["picture"] == shades(train.inputs[record["index"]])
    assert painted(grey_picture(record["picture"], ""), 28, 28) == record["picture"]
