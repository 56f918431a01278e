"""train keeps a checkpoint, goes on from it, and leaves weights with their receipt."""

import json

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file

from dpsgd_explorer.cli import train as run_files
from dpsgd_explorer.cli.main import main
from dpsgd_explorer.experiments.events import Event
from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.training.dp_sgd import TrainingExperiment
from tests.cli.test_main import SMALL


@pytest.fixture
def train(tmp_path):
    """Return what runs the command on SMALL with changes."""

    def run(*options, config=SMALL, **changes):
        file = tmp_path / "config.json"
        file.write_text(json.dumps(config | changes))
        return main(["train", "--config", str(file), *map(str, options)])

    return run


@pytest.fixture(scope="module")
def whole():
    """Return (events without times, weights, receipt) of an uninterrupted run."""
    training = TrainingExperiment(TrainingConfig.parse(SMALL))
    events = [event.timeless() for event in training.events()]
    return events, training.weights(), training.receipt()


def timeless(path):
    lines = path.read_text().splitlines()
    return [Event(**json.loads(line)).timeless() for line in lines]


def test_weights_come_with_their_receipt(train, tmp_path, whole):
    path = tmp_path / "model.safetensors"
    assert train("--weights", path) == 0
    _, weights, receipt = whole
    torch.testing.assert_close(load_file(path), weights, rtol=0, atol=0)
    assert json.loads((tmp_path / "model.receipt.json").read_text()) == receipt
    assert receipt["epsilon"] > 0
    with safe_open(path, "pt") as file:
        assert TrainingConfig.parse(json.loads(file.metadata()["config"]))


class StopError(Exception):
    """Ends the process as a crash would, as far as the files are concerned."""


@pytest.mark.parametrize("stop", [1, 3, 6])
def test_a_run_goes_on_from_its_checkpoint(train, tmp_path, whole, monkeypatch, stop):
    events, checkpoint = tmp_path / "events.jsonl", tmp_path / "state"
    weights = tmp_path / "model.safetensors"
    options = "--events", events, "--checkpoint", checkpoint, "--weights", weights
    monkeypatch.setattr(run_files, "CHECKPOINT_SECONDS", 0.0)
    own, seen = TrainingExperiment.checkpoint, []

    def stopped(training):
        seen.append(training)
        if len(seen) > stop:
            raise StopError
        return own(training)

    monkeypatch.setattr(TrainingExperiment, "checkpoint", stopped)
    with pytest.raises(StopError):
        train(*options)
    assert not weights.exists()
    assert len(timeless(events)) == stop + 1  # told, and to be told again
    monkeypatch.setattr(TrainingExperiment, "checkpoint", own)
    assert train(*options) == 0
    assert timeless(events) == whole[0]
    torch.testing.assert_close(load_file(weights), whole[1], rtol=0, atol=0)
    assert json.loads((tmp_path / "model.receipt.json").read_text()) == whole[2]


def test_a_finished_run_is_not_trained_again(train, tmp_path, whole):
    events, checkpoint = tmp_path / "events.jsonl", tmp_path / "state"
    for _ in range(2):
        assert train("--events", events, "--checkpoint", checkpoint) == 0
        assert timeless(events) == whole[0]


def test_without_a_checkpoint_events_start_anew(train, tmp_path, whole):
    events = tmp_path / "events.jsonl"
    events.write_text('{"kind": "of an older run"}\n' * 99)
    assert train("--events", events) == 0
    assert timeless(events) == whole[0]


def test_a_run_without_privacy_has_no_receipt(train, tmp_path):
    path = tmp_path / "model.safetensors"
    assert train("--weights", path, private=False) == 0
    assert json.loads((tmp_path / "model.receipt.json").read_text()) is None


def test_the_checkpoint_of_another_run_is_refused(train, tmp_path, capsys):
    checkpoint = tmp_path / "state"
    assert train("--checkpoint", checkpoint) == 0
    assert train("--checkpoint", checkpoint, steps=13) == 2
    said = capsys.readouterr().err
    assert "the checkpoint's config must be this run's; steps is 13 here and" in said
    assert "dataset" not in said  # settings that agree are left out


def test_a_finished_checkpoint_says_so(train, tmp_path, capsys):
    checkpoint = tmp_path / "state"
    assert train("--checkpoint", checkpoint) == 0
    assert "finished run" not in capsys.readouterr().out
    assert train("--checkpoint", checkpoint) == 0
    assert f"{checkpoint} holds a finished run of" in capsys.readouterr().out


def test_a_damaged_checkpoint_is_named(train, tmp_path, capsys):
    checkpoint = tmp_path / "state"
    checkpoint.write_bytes(b"nonsense")
    assert train("--checkpoint", checkpoint) == 2
    assert f"{checkpoint} is damaged" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "config", "message"),
    [
        (["--weights", "model.bin"], SMALL, "must end in .safetensors"),
        (["--weights", "no/where.safetensors"], SMALL, "in an existing folder"),
        (["--checkpoint", "no/where"], SMALL, "--checkpoint must be in an existing"),
        (["--weights", "x"], {"kind": "regression"}, "training, got regression"),
    ],
)
def test_files_that_cannot_be_are_refused(train, capsys, options, config, message):
    assert train(*options, config=config) == 2
    assert message in capsys.readouterr().err
