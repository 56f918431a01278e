"""What a log says of a model is what the model was, at a size that a page can take."""

import base64
import json
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.training import model_snapshots, models
from dpsgd_explorer.training.datasets.registry import LOADERS, load
from dpsgd_explorer.training.dp_sgd import TrainingExperiment
from dpsgd_explorer.training.model_snapshots import (
    MAX_MISREAD_BYTES,
    MAX_SNAPSHOTS,
    MAX_WEIGHT_BYTES,
    ModelSnapshots,
    confusion,
    encoded_weights,
    least_certain,
    misread,
    spread,
)

UNPACKED = """
import {misreadRecords, pictures, tensors} from "%s/static/js/runs/model/seen.js";
import {readFileSync} from "node:fs";
const {misread, weights, pictures: packed} = JSON.parse(readFileSync(0, "utf8"));
console.log(JSON.stringify({
  misread: [...misreadRecords(misread)],
  weights: Object.values(tensors(weights)).map((v) => [v.shape, [...v.values]]),
  pictures: pictures(packed).map(({index, label, ink}) => [index, label, [...ink]]),
}));
"""
ROOT = Path(__file__).resolve().parents[2]
LARGEST_LOG = 550_000  # bytes of all model events of a run, whatever it learns
WOMEN = 5_421  # in Adult's test file


def decoded_weights(entry):
    levels = np.frombuffer(base64.b64decode(entry["values"]), np.int8)
    return torch.tensor(levels * entry["scale"]).view(entry["shape"])


def decoded_misread(text):
    """Return {record: read as}, from the docstring of ``misread``."""
    found, place = {}, 0
    for byte in base64.b64decode(text):
        if byte >> 4 == 15:
            place += 15 * (1 + (byte & 15))
        else:
            place += byte >> 4
            found[place] = byte & 15
            place += 1
    return found


@pytest.fixture(scope="module")
def run():
    """A short run on Adult, its events and the model it ends with."""
    settings = {"dataset": "adult", "model": "logistic", "noise_multiplier": 1.0}
    short = {"steps": 6, "evaluations": 3, "expected_batch_size": 64}
    experiment = TrainingExperiment(TrainingConfig.parse(settings | short))
    return list(experiment.events()), experiment.weights()


def of_kind(run, kind):
    return [event.data for event in run[0] if event.kind == kind]


def test_a_snapshot_follows_the_start_and_each_evaluation(run):
    evaluated = [data["step"] for data in of_kind(run, "evaluation")]
    assert [data["step"] for data in of_kind(run, "model")] == [0, *evaluated]


def test_confusions_and_groups_count_the_errors_of_the_evaluation(run):
    _, test = load("adult")
    for tested, seen in zip(
        of_kind(run, "evaluation"), of_kind(run, "model")[1:], strict=True
    ):
        counts = np.array(seen["confusion"])
        assert counts.sum(axis=1).tolist() == torch.bincount(test.targets).tolist()
        assert np.trace(counts) / len(test) == tested["test_accuracy"]
        wrong = counts.sum() - np.trace(counts)
        for groups in seen["groups"].values():
            assert sum(records for records, _ in groups.values()) == len(test)
            assert sum(errors for _, errors in groups.values()) == wrong
    assert of_kind(run, "model")[-1]["groups"]["sex"]["Female"][0] == WOMEN


def test_the_last_weights_are_the_models_within_half_a_level(run):
    weights = of_kind(run, "model")[-1]["weights"]
    assert weights.keys() == run[1].keys()
    for name, entry in weights.items():
        error = (decoded_weights(entry) - run[1][name]).abs().max()
        assert error <= entry["scale"] * 0.500001, name
        assert entry["scale"] == pytest.approx(float(run[1][name].abs().max()) / 127)


def test_a_table_names_each_column_once(run):
    start, *rest = of_kind(run, "model")
    train_part, _ = load("adult")
    assert len(start["features"]) == train_part.inputs.shape[1]
    assert len(set(start["features"])) == len(start["features"])
    assert [later["features"] for later in rest] == [None] * len(rest)


def test_names_stand_at_their_columns():
    names = LOADERS["adult"].feature_names()
    train_part, _ = load("adult")
    column = train_part.inputs[:, names.index("sex = Female")]
    other = train_part.inputs[:, names.index("sex = Male")]
    assert bool(((column > 0) != (other > 0)).all())
    old, older = (
        train_part.inputs[:, names.index(f"age ≥ {age}")] > 0 for age in (30, 60)
    )
    assert bool((old | ~older).all())
    assert 0.02 < float(older.float().mean()) < 0.2 < float(old.float().mean())


def test_weights_that_are_all_zero_come_back_as_zero():
    layer = nn.Linear(3, 2)
    with torch.no_grad():
        layer.weight.zero_()
    assert not decoded_weights(encoded_weights(layer)["weight"]).any()


@pytest.mark.parametrize("share", [0.0, 0.001, 0.02, 0.1, 1.0])
@pytest.mark.parametrize("count", [1, 15, 16, 17, 256, 257, 1000])
def test_misread_records_come_back_with_what_they_are_read_as(count, share):
    draw = torch.Generator().manual_seed(count)
    targets = torch.randint(10, (count,), generator=draw)
    wrong = torch.rand(count, generator=draw) < share
    predicted = torch.where(wrong, (targets + 3) % 10, targets)
    assert decoded_misread(misread(predicted, targets)) == {
        int(i): int(predicted[i]) for i in wrong.nonzero()
    }


def test_too_many_misread_records_are_not_listed():
    targets = torch.zeros(2 * MAX_MISREAD_BYTES, dtype=torch.int64)
    fits, too_many = targets.clone(), targets.clone()
    fits[:MAX_MISREAD_BYTES] = 1
    too_many[: MAX_MISREAD_BYTES + 1] = 1
    assert len(decoded_misread(misread(fits, targets))) == MAX_MISREAD_BYTES
    assert misread(too_many, targets) is None


def test_confusions_are_rows_of_what_is_and_columns_of_what_is_read():
    assert confusion(torch.tensor([1, 1, 0]), torch.tensor([0, 1, 1]), 2) == [
        [0, 1],
        [1, 1],
    ]


def test_undecided_records_are_the_closest_of_each_class():
    scores = torch.tensor([[3.0, 0.0], [0.2, 0.0], [0.0, 0.5], [0.0, 9.0], [1.0, 0.9]])
    targets = torch.tensor([0, 0, 1, 1, 1])
    assert least_certain(scores, targets, 2).tolist() == [1, 0, 4, 2]


@pytest.mark.parametrize("count", [1, 2, 39, 40, 41, 200])
def test_chosen_steps_are_even_and_end_with_the_last(count):
    steps = [3 * i for i in range(1, count + 1)]
    chosen = spread(steps, 40)
    assert len(chosen) == len(set(chosen)) == min(count, 40)
    assert chosen[-1] == steps[-1]
    gaps = np.diff([0, *chosen])
    assert gaps.max() - gaps.min() <= 3
    assert spread(steps, 0) == []


def worst_case(model, evaluated):
    """Return the model events of a run whose every list is as long as it may be."""
    _, test = load("mnist")
    built = models.build(model, "mnist", 0)
    snapshots = ModelSnapshots(built, "mnist", evaluated)
    scores = nn.functional.one_hot(test.targets, 10).float()
    wrong = torch.arange(0, len(test), 10)  # one byte each
    scores[wrong] = scores[wrong].roll(1, dims=1)
    after = [snapshots.after(step, scores) for step in evaluated]
    return [snapshots.start(), *(data for data in after if data)]


@pytest.mark.parametrize("model", ["logistic", "scattering_linear", "cnn", "mlp"])
def test_a_log_stays_small_however_many_evaluations_there_are(model):
    events = worst_case(model, range(1, 201))
    assert len(events) == 1 + MAX_SNAPSHOTS
    assert all(event["misread"] for event in events[1:])
    assert [bool(event["pictures"]) for event in events] == [False] * 40 + [True]
    assert len(json.dumps(events)) <= LARGEST_LOG
    weights = [event["weights"] for event in events]
    assert (weights[0] is None) == (weights[-1] is None) == (model == "mlp")
    written = sum(len(p["values"]) for w in weights if w for p in w.values())
    assert written <= MAX_WEIGHT_BYTES


def test_pixels_have_their_weights_at_each_of_forty_evaluations():
    assert all(event["weights"] for event in worst_case("logistic", range(1, 41)))


def test_pictures_are_the_test_sets_in_sixteen_shades():
    pictures = worst_case("logistic", [1])[-1]["pictures"]
    _, test = load("mnist")
    packed = np.frombuffer(base64.b64decode(pictures["values"]), np.uint8)
    shades = np.stack([packed >> 4, packed & 15], axis=1).reshape(-1, 28, 28)
    assert len(shades) == 10 * model_snapshots.PICTURES_PER_CLASS
    assert pictures["labels"] == test.targets[pictures["indices"]].tolist()
    true = test.inputs[pictures["indices"], 0].numpy()
    assert np.abs(shades / 15 - true).max() <= 0.5 / 15 + 1e-6


def test_the_page_unpacks_what_was_packed():
    """Sixteen right records in a row, and more than a byte passes over, among them."""
    _, test = load("mnist")
    model = models.build("logistic", "mnist", 0)
    scores = nn.functional.one_hot(test.targets, 10).float()
    wrong = torch.tensor([0, 1, 17, 400, 1_000, 9_999])
    scores[wrong] = scores[wrong].roll(3, dims=1)
    data = ModelSnapshots(model, "mnist", [1]).after(1, scores)
    run = subprocess.run(
        ["node", "--input-type=module", "-e", UNPACKED % ROOT],
        input=json.dumps(data),
        capture_output=True,
        text=True,
        check=True,
    )
    seen = json.loads(run.stdout)
    assert seen["misread"] == [
        [int(i), int(test.targets[i] + 3) % 10] for i in wrong.tolist()
    ]
    for (shape, values), (name, parameter) in zip(
        seen["weights"], model.named_parameters(), strict=True
    ):
        assert shape == list(parameter.shape)
        expected = decoded_weights(data["weights"][name]).flatten()
        assert values == pytest.approx(expected.tolist(), abs=1e-7)
    for index, label, ink in seen["pictures"]:
        assert label == int(test.targets[index])
        assert np.abs(test.inputs[index].flatten().numpy() - ink).max() <= 0.04
