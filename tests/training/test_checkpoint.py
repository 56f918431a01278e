import io
import itertools

import pytest
import torch

from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.experiments.catalogue import MODELS
from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.training.dp_sgd import TrainingExperiment, train

PAIRS = [(model, data) for model in MODELS for data in MODELS[model].parameters]
CASES = [
    *({"model": model, "dataset": dataset} for model, dataset in PAIRS),
    {"model": "logistic", "dataset": "adult", "private": False},
    {"model": "logistic", "dataset": "adult", "optimizer": "adam"},
    {"model": "logistic", "dataset": "adult", "stop_at_epsilon": 1.0},
]


def configuration(**settings):
    given = {"noise_multiplier": 2.0, "steps": 3, "evaluations": 1}
    return TrainingConfig.parse(given | {"expected_batch_size": 24} | settings)


def interrupted(config, count):
    """Run until so many events were seen, and return the checkpoint."""
    training = TrainingExperiment(config)
    list(itertools.islice(training.events(), count))
    assert training.events_emitted == count
    return training.checkpoint()


@pytest.mark.parametrize("settings", CASES, ids=str)
def test_a_run_killed_after_any_event_goes_on_with_the_very_next(settings):
    config = configuration(**settings)
    whole = [event.timeless() for event in train(config)]
    for count in range(len(whole) + 1):
        resumed = TrainingExperiment(config, checkpoint=interrupted(config, count))
        assert resumed.events_emitted == count
        assert [event.timeless() for event in resumed.events()] == whole[count:]
        assert resumed.events_emitted == len(whole)


def test_a_run_may_be_killed_again_and_again():
    config = configuration(dataset="adult", model="logistic", steps=6)
    whole = [event.timeless() for event in train(config)]
    seen, checkpoint = [], None
    for _ in whole:
        training = TrainingExperiment(config, checkpoint=checkpoint)
        seen.append(next(training.events()).timeless())
        checkpoint = training.checkpoint()
    assert seen == whole


def test_seconds_go_on_after_a_resume():
    config = configuration(dataset="adult", model="logistic")
    training = TrainingExperiment(config)
    last = list(itertools.islice(training.events(), 3))[-1]
    resumed = TrainingExperiment(config, checkpoint=training.checkpoint())
    assert next(resumed.events()).data["seconds"] >= last.data["seconds"]


def test_a_checkpoint_needs_no_code_to_be_read():
    state = torch.load(io.BytesIO(interrupted(configuration(), 3)), weights_only=True)
    assert state["events_emitted"] == 3
    assert state["model"]["weight"].shape == (10, 1225)


@pytest.mark.parametrize(
    "other", [{"seed": 8}, {"max_grad_norm": 0.2}, {"steps": 4}], ids=str
)
def test_another_runs_checkpoint_is_refused(other):
    kept = {"dataset": "adult", "model": "logistic"}
    checkpoint = interrupted(configuration(**kept), 2)
    with pytest.raises(ConfigError, match="the checkpoint's config must be") as refusal:
        TrainingExperiment(configuration(**kept, **other), checkpoint=checkpoint)
    assert refusal.value.field == "checkpoint"
