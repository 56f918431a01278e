"""The table of kinds: settings say which, and each brings what carries it out."""

import re
from dataclasses import fields
from pathlib import Path

import pytest

from dpsgd_explorer import experiments
from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.experiments import kinds
from dpsgd_explorer.experiments.kinds import KINDS, Kind
from dpsgd_explorer.experiments.regression_config import RegressionConfig
from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.training import timing as measuring
from dpsgd_explorer.training.processes import check_group
from tests.tiny_runs import EACH_KIND, TINY

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", EACH_KIND)
def test_every_kind_is_carried_out_and_says_what_it_measures(name, monkeypatch):
    monkeypatch.setattr(measuring, "VISIT_SECONDS", 0.0)
    config = kinds.parse(TINY[name].settings | {"kind": name})
    assert isinstance(config, KINDS[name].config)
    events = list(kinds.start(config).events())
    assert [events[0].kind, events[-1].kind] == ["phase", "end"]
    told = [event.data for event in events if event.kind in ("evaluation", "end")]
    assert all(data.keys() >= set(KINDS[name].measured) for data in told)
    assert events[-1].data["step"] == config.planned_steps
    assert config.length_setting in KINDS[name].config.model_fields
    assert config.cost > 0


@pytest.mark.parametrize("name", KINDS)
def test_the_settings_of_every_kind_have_a_public_name(name):
    """The program that an export holds imports them by it."""
    config = KINDS[name].config
    assert getattr(experiments, config.__name__) is config


def test_settings_that_name_no_kind_are_those_of_a_training():
    assert isinstance(kinds.parse({}), TrainingConfig)
    assert isinstance(kinds.parse({"kind": "regression"}), RegressionConfig)


@pytest.mark.parametrize("name", ["sweep", "", 3, None, []], ids=str)
def test_an_unknown_kind_is_refused_with_those_there_are(name):
    with pytest.raises(ConfigError, match="training, regression, reg") as refusal:
        kinds.parse({"kind": name})
    assert refusal.value.field == "kind"


@pytest.mark.parametrize("values", [[], "training", None], ids=str)
def test_what_is_no_object_is_refused_as_such(values):
    with pytest.raises(ConfigError, match="an object of settings"):
        kinds.parse(values)


def test_a_kind_that_is_no_longer_launched_is_read_and_not_started():
    config = kinds.parse({"kind": "search"})
    assert "search" not in kinds.LAUNCHED
    with pytest.raises(ConfigError, match="can no longer be launched") as refusal:
        kinds.start(config)
    assert refusal.value.field == "kind"


def test_nothing_asks_for_the_name_of_a_kind():
    """What differs between kinds is a field of the record, the settings or the view."""
    named = f"""["'](?:{"|".join(KINDS)})["']"""
    configs = "|".join(kind.config.__name__ for kind in KINDS.values())
    branch = re.compile(
        rf"\bkind\W{{0,3}}\s*(?:[!=]==?|in)\s*[(\[]*{named}"
        r"|(?:[!=]=|\bin|\bnot in) *\(?DEFAULT_KIND"
        rf"|isinstance\([^()]*\(?[^()]*\b(?:{configs})\b"
    )
    files = [
        path
        for folder in ("dpsgd_explorer", "templates", "static/js", "tools")
        for suffix in ("py", "html", "js")
        for path in (ROOT / folder).rglob(f"*.{suffix}")
    ]
    assert len(files) > 500
    found = [
        f"{path.relative_to(ROOT)}: {hit.group()}"
        for path in files
        for hit in branch.finditer(path.read_text(encoding="utf-8"))
    ]
    assert found == []


@pytest.mark.parametrize("name", KINDS)
def test_one_kind_is_one_training(name):
    """It alone can be changed, continued, attacked, shared by processes and saved."""
    config = kinds.parse({"kind": name})
    assert kinds.as_training(config) is (config if name == "training" else None)
    assert KINDS[name].compared == (name == "training")
    if name == "training":
        check_group(config, "cpu")
        return
    with pytest.raises(ConfigError, match=f"kind must be training .*, got {name}:"):
        check_group(config, "cpu")


@pytest.mark.parametrize("word", [field.name for field in fields(Kind)])
def test_a_kind_lacks_no_word(word):
    """No field has a default, so a kind without one is a type error."""
    known = KINDS["training"]
    others = {
        field.name: getattr(known, field.name)
        for field in fields(Kind)
        if field.name != word
    }
    with pytest.raises(TypeError, match=f"missing 1 .* argument: '{word}'"):
        Kind(**others)
