"""docs/reference/engines.md is what the commands write, and leaves no rule out."""

import re

import pytest
import torch
from torch import nn

from dpsgd_explorer.dp import PrivacyEngine
from dpsgd_explorer.dp.config import ENGINES
from dpsgd_explorer.dp.engines.norm_choice import CLIPPING_MODES
from dpsgd_explorer.dp.layers import RULES
from dpsgd_explorer.dp.layers.linear import LinearRule
from dpsgd_explorer.errors import UnsupportedModuleError
from dpsgd_explorer.web.content import engines as content
from tests.dp.mutations.rules import RULES as BROKEN
from tools.compare_engines import MODELS
from tools.compare_engines import WAYS as WAYS_MEASURED
from tools.engine_layers import LAYERS
from tools.marked_text import lines_between
from tools.write_engines_page import PAGE, WAYS, _error, tables

TEXT = PAGE.read_text(encoding="utf-8")


def rows(name):
    """Return the cells of each row of one of the page's tables."""
    table = lines_between(PAGE, name)
    lines = [line for line in table if line.startswith("| ")][1:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_every_layer_is_measured_both_ways_and_exact():
    table = rows("layers")
    assert [row[0] for row in table] == [layer.name for layer in LAYERS]
    for _, _, *cells, picked in table:
        assert float(cells[0]) < 1e-10
        assert float(cells[3]) < 1e-10
        assert any(way in picked for way in WAYS)


def test_the_page_has_the_tables_of_engines():
    for name, table in tables().items():
        assert "\n".join(lines_between(PAGE, name)) == table


def test_every_engine_and_mode_is_measured_on_every_model():
    assert list(content.models()) == list(MODELS)
    for costs in content.models().values():
        assert costs.keys() == {content.ORDINARY, *WAYS_MEASURED}
        assert costs[content.ORDINARY] == [1.0, 1.0]
        assert min(min(pair) for pair in costs.values()) > 0


def test_the_table_says_what_each_engine_does_to_the_optimizer():
    for engine, optimizer, place in zip(
        ENGINES.values(),
        content.FEATURES["optimizer"],
        content.FEATURES["noisy gradient in"],
        strict=False,
    ):
        untouched = engine.releases_in_backward
        assert optimizer == ("untouched" if untouched else "hooked")
        assert ("step()" in place) is not untouched


def test_every_engine_of_the_literature_that_is_here_can_be_chosen():
    chosen = [
        dict(re.findall(r'(\w+)="(\w+)"', engine.here)) for engine in content.KNOWN
    ]
    assert {one["engine"] for one in chosen if one} == ENGINES.keys()
    modes = {one["clipping_mode"] for one in chosen if "clipping_mode" in one}
    assert modes == CLIPPING_MODES.keys()
    for engine, arguments in zip(content.KNOWN, chosen, strict=True):
        if arguments and "group=" not in engine.here:  # which needs several processes
            optimizer = torch.optim.SGD((net := nn.Linear(2, 2)).parameters(), lr=0.1)
            sizes = {"batch_size": 2, "sample_size": 8, "noise_multiplier": 1.0}
            PrivacyEngine(net, **sizes, **arguments).attach(optimizer)
            assert engine.measured


def test_every_rule_has_a_layer():
    kinds = {type(layer.make()) for layer in LAYERS}
    assert set(RULES) - kinds == set()


def test_every_broken_rule_is_on_the_page_and_was_seen():
    table = [(rule, name, colour) for rule, name, colour, *_ in rows("mutations")]
    expected = [
        (rule, each.name, "red") for rule, own in BROKEN.items() for each in own
    ]
    assert table == expected


@pytest.mark.parametrize("way", WAYS)
def test_a_wrong_rule_gets_no_row(way, monkeypatch):
    def no_bias(rule, layer, activations, backprops):
        found = right(rule, layer, activations, backprops)
        return {name: gradient * (name != "bias") for name, gradient in found.items()}

    assert _error(LAYERS[1], way) < 1e-12
    right = LinearRule.per_sample_gradients
    monkeypatch.setattr(LinearRule, "per_sample_gradients", no_bias)
    with pytest.raises(
        UnsupportedModuleError, match=r"layer\.bias (are not|do not add up)"
    ):
        _error(LAYERS[1], way)


def test_the_page_is_made_by_the_commands_it_names():
    for command in re.findall(r"`python -m tools\.(\w+)`", TEXT):
        assert (PAGE.parents[2] / "tools" / f"{command}.py").exists()
