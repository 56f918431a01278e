"""train takes the norm methods that another run has recorded."""

import json

import pytest

from dpsgd_explorer.cli.main import main
from dpsgd_explorer.experiments.events import Event
from tests.dp.timers import prefer, refuse
from tests.training.test_norm_methods import LSTM


@pytest.fixture
def train(tmp_path, monkeypatch):
    """Return what runs the command and returns its events without times."""
    config = tmp_path / "config.json"
    config.write_text(json.dumps(LSTM))
    monkeypatch.setenv("DPSGD_INSTANCE_DIR", str(tmp_path))

    def run(name, *options):
        events = tmp_path / name
        command = ["train", "--config", config, "--events", events, *options]
        assert main(list(map(str, command))) == 0
        return events

    return run


def logged(path):
    lines = path.read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def timeless(path):
    return [Event(**line).timeless() for line in logged(path)]


def test_a_run_is_repeated_by_its_events_and_by_its_export(
    train, tmp_path, monkeypatch
):
    monkeypatch.setenv("DPSGD_NORM_METHODS", "measured")
    prefer(monkeypatch, "instantiate")
    first = train("first.jsonl")
    assert list(logged(first)[0]["data"]["norm_methods"].values()) == ["instantiate"]
    refuse(monkeypatch)
    assert timeless(train("again.jsonl", "--norm-methods", first)) == timeless(first)
    export = tmp_path / "export.json"
    export.write_text(json.dumps({"events": logged(first)}, indent=1))
    assert timeless(train("third.jsonl", "--norm-methods", export)) == timeless(first)


def test_a_run_that_recorded_none_is_estimated(train, monkeypatch):
    refuse(monkeypatch)
    plain = train("plain.jsonl")
    monkeypatch.setenv("DPSGD_NORM_METHODS", "measured")
    assert timeless(train("again.jsonl", "--norm-methods", plain)) == timeless(plain)


@pytest.mark.parametrize(
    "content",
    ["", "{}", "[]", "3", "no JSON", '{"kind": "step"}', '{"events": [{}]}', None],
)
def test_a_file_that_is_no_log_is_refused(tmp_path, capsys, content):
    config, path = tmp_path / "config.json", tmp_path / "log"
    config.write_text("{}")
    if content is not None:
        path.write_text(content)
    command = ["train", "--config", config, "--norm-methods", path]
    assert main(list(map(str, command))) == 2
    told = capsys.readouterr().err
    assert "--norm-methods must be a file of events" in told
    assert str(path) in told
