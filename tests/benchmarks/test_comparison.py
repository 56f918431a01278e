"""The page that compares libraries shows the recorded figures, and they are true."""

import pytest

from benchmarks import comparison, peers, record
from tools import marked_text

RECORDED = {(row["model"], row["library"]): row for row in record.read("peers")["rows"]}


def test_every_model_was_given_to_every_library():
    assert set(RECORDED) == {(m, key) for m in peers.MODELS for key in peers.LIBRARIES}


@pytest.mark.parametrize("part", comparison.parts())
def test_the_page_shows_the_recorded_figures(part):
    shown = marked_text.lines_between(comparison.PAGE, part)
    assert shown == comparison.parts()[part].splitlines()


@pytest.mark.parametrize("model", peers.MODELS)
def test_this_library_gives_the_right_sum_or_an_error(model):
    found = peers.outcome(model, peers.LIBRARIES["hooks"][1])["outcome"]
    assert found == RECORDED[model, "hooks"]["outcome"]
    assert found == ("raises" if peers.MODELS[model][2] else "right")


def test_a_wrong_sum_and_a_mixing_model_are_noticed():
    def unclipped(model, optimizer, data):
        peers.cross_entropy(model(data[0]), data[1]).backward()

    assert peers.outcome("linear layers", unclipped)["outcome"] == "wrong"
    mixed = peers.outcome("batch normalization", unclipped)
    assert mixed["outcome"] == "mixed"
    assert mixed["value"] > 0
