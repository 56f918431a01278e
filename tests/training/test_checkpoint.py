"""A run of any kind resumes from its checkpoint without a difference."""

import io
import itertools

import pytest
import torch

from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.experiments import kinds
from dpsgd_explorer.experiments.architecture import PRE_TRAINED
from dpsgd_explorer.experiments.catalogue import MODELS
from dpsgd_explorer.experiments.data_files.sets import FETCHED

pytestmark = pytest.mark.usefixtures("brief")

TRAINING = {
    "noise_multiplier": 2.0,
    "steps": 3,
    "evaluations": 1,
    "expected_batch_size": 24,
    "audit": 0,
}
ADULT = TRAINING | {"model": "logistic", "dataset": "adult"}
REGRESSION = {
    "kind": "regression",
    "noise_multiplier": 50.0,
    "steps": 60,
    "repetitions": 5,
    "evaluations": 6,
}
ENGINES = {
    "kind": "engines",
    "model": "lstm",
    "width": 4,
    "batch_size": 3,
    "sequence_length": 2,
}
STOPPED = {"kind": "planted_bug", "loop": "never_summed"}
SLOW = {"cnn", "conv1d", "mlp", "scattering_linear"}
CASES = [
    *(
        pytest.param(
            TRAINING | {"model": model, "dataset": dataset},
            marks=[pytest.mark.long("real runs")] if model in SLOW else [],
        )
        for model in MODELS
        for dataset in MODELS[model].parameters
        if dataset not in FETCHED  # the file may not be here
        and model != PRE_TRAINED  # test_language_model.py, with few test records
    ),
    ADULT | {"private": False},
    ADULT | {"optimizer": "adam"},
    ADULT | {"audit": 50},
    ADULT | {"stop_at_epsilon": 1.0},
    REGRESSION,
    *(
        pytest.param(settings, marks=pytest.mark.long("real runs"))
        for settings in (ENGINES, STOPPED)
    ),
]


def started(settings, checkpoint=None):
    return kinds.start(kinds.parse(settings), checkpoint=checkpoint)


def interrupted(settings, count):
    """Run until ``count`` events were seen; return the run."""
    run = started(settings)
    list(itertools.islice(run.events(), count))
    assert run.events_emitted == count
    return run


@pytest.mark.parametrize("settings", CASES, ids=str)
def test_a_run_killed_after_any_event_goes_on_with_the_very_next(settings):
    whole = [event.timeless() for event in started(settings).events()]
    for count in range(len(whole) + 1):
        resumed = started(settings, interrupted(settings, count).checkpoint())
        assert resumed.events_emitted == count
        assert [event.timeless() for event in resumed.events()] == whole[count:]
        assert resumed.events_emitted == len(whole)


def test_a_run_may_be_killed_again_and_again():
    settings = ADULT | {"steps": 6}
    whole = [event.timeless() for event in started(settings).events()]
    seen, checkpoint = [], None
    for _ in whole:
        run = started(settings, checkpoint)
        seen.append(next(run.events()).timeless())
        checkpoint = run.checkpoint()
    assert seen == whole


@pytest.mark.parametrize("settings", [ADULT, REGRESSION], ids=str)
def test_seconds_go_on_after_a_resume(settings):
    run = started(settings)
    run._started -= 40.0
    resumed = started(settings, run.checkpoint())
    assert all(
        event.data["seconds"] >= 40
        for event in resumed.events()
        if event.kind != "phase"
    )


def test_a_checkpoint_needs_no_code_to_be_read():
    checkpoint = io.BytesIO(interrupted(TRAINING, 3).checkpoint())
    state = torch.load(checkpoint, weights_only=True)
    assert state["events_emitted"] == 3
    assert state["model"]["weight"].shape == (10, 1225)


@pytest.mark.parametrize(
    ("settings", "other"),
    [
        (ADULT, {"seed": 8}),
        (ADULT, {"max_grad_norm": 0.2}),
        (ADULT, {"steps": 4}),
        (REGRESSION, {"seed": 9}),
        (ENGINES, {"width": 8}),
    ],
    ids=str,
)
def test_another_runs_checkpoint_is_refused(settings, other):
    checkpoint = interrupted(settings, 1).checkpoint()
    with pytest.raises(ConfigError, match="the checkpoint's config must be") as refusal:
        started(settings | other, checkpoint)
    assert refusal.value.field == "checkpoint"
    assert "start the run again" in str(refusal.value)
