"""One run in one process: its log is that of the training, also after a break."""

import json
import pickle
from dataclasses import replace
from functools import cache
from typing import ClassVar

import pytest
import safetensors.torch
from sqlalchemy import update

from dpsgd_explorer.dp.noise.seeded import SeededNoise
from dpsgd_explorer.experiments import kinds
from dpsgd_explorer.experiments.events import Event
from dpsgd_explorer.experiments.kinds import KINDS
from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.runs.store.leases import LEASE_SECONDS
from dpsgd_explorer.runs.store.schema import checkpoints
from dpsgd_explorer.runs.worker import outcomes, silence
from dpsgd_explorer.runs.worker.child import carry_out
from dpsgd_explorer.runs.worker.program import program
from dpsgd_explorer.training import inputs
from dpsgd_explorer.training.datasets import features
from tests.runs.real_runs import CHEAP, told


@pytest.fixture(params=CHEAP)
def config(request):
    """The cheapest run of each kind that computes; to measure takes many seconds."""
    return kinds.parse(CHEAP[request.param])


@pytest.fixture
def train(store, settings):
    def train(claim):
        return carry_out(store, claim, settings, lease_s=LEASE_SECONDS)

    return train


@cache
def trained(config):
    """What an uninterrupted run tells."""
    return [event.timeless() for event in kinds.start(config).events()]


@pytest.fixture
def begun(store, config):
    """Give a claimed run whose first worker stored some events, and died."""

    def begun(events, checkpoint_after=None, change=lambda event: event, made_by=None):
        run = store.create(config, visitor="ann")
        claim = store.leases.claim(run.id)
        training = kinds.start(config)
        for number, event in enumerate(training.events(), start=1):
            store.leases.append(claim, [change(event)])
            if number == checkpoint_after:
                by = program() if made_by is None else made_by
                store.leases.save_checkpoint(claim, training.checkpoint(), program=by)
            if number == events:
                break
        store.leases.release(claim, lost=True)
        return store.leases.claim(run.id)

    return begun


def test_a_run_is_stored_from_phase_to_end(store, config, train):
    run = store.create(config, visitor="ann")
    assert train(store.leases.claim()) == 0
    done = store.get(run.id)
    assert (done.state, done.error, done.step) == ("done", None, 20)
    assert told(store, run.id) == trained(config)
    end = json.loads(store.events(run.id)[-2].data)
    [(_, begun), *_] = trained(config)
    ended = {**end, "steps": 20, "status": begun["status"]}
    assert done.summary.items() <= ended.items()
    assert done.summary.keys() >= set(KINDS[config.kind].measured)
    assert [event.kind for event in store.events(run.id)][-2:] == ["end", "state"]


@pytest.mark.parametrize(
    ("events", "checkpoint_after"),
    [
        pytest.param(7, None, id="before the first checkpoint"),
        pytest.param(7, 7, id="right behind a checkpoint"),
        pytest.param(15, 7, id="some way behind a checkpoint"),
        pytest.param(None, 7, id="with everything told but the end state"),
    ],
)
def test_a_resumed_run_ends_as_one_in_one_piece(
    store, config, train, begun, events, checkpoint_after
):
    claim = begun(events, checkpoint_after)
    before = store.events(claim.run_id)
    assert train(claim) == 0
    assert told(store, claim.run_id) == trained(config)
    after = store.events(claim.run_id)
    assert after[: len(before)] == before
    assert [event.seq for event in after] == list(range(1, len(after) + 1))
    assert store.get(claim.run_id).state == "done"


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda whole: b"", id="empty"),
        pytest.param(lambda whole: whole[: len(whole) // 2], id="cut"),
        pytest.param(lambda whole: b"\xff" * 1000, id="garbage"),
        pytest.param(lambda whole: pickle.dumps(Runs()), id="a pickle that runs code"),
        pytest.param(lambda whole: b"[1, 2]", id="other JSON"),
    ],
)
def test_a_run_whose_checkpoint_is_broken_is_repeated_from_its_start(
    store, config, train, begun, damage
):
    claim = begun(9, 5)
    before = store.events(claim.run_id)
    whole = store.leases.checkpoint(claim.run_id).data
    with store.database.write() as connection:
        connection.execute(update(checkpoints).values(data=damage(whole)))
    assert train(claim) == 0
    assert store.get(claim.run_id).state == "done"
    assert store.events(claim.run_id)[: len(before)] == before
    assert told(store, claim.run_id) == trained(config)
    assert Runs.ran == []


class Runs:
    """Takes note when it is unpickled."""

    ran: ClassVar = []

    def __reduce__(self):
        return Runs.ran.append, ("ran",)


def test_the_checkpoint_of_another_run_is_no_start(store, config, train, begun):
    claim = begun(9, 5)
    other = type(config).parse(CHEAP[config.kind] | {"seed": 99})
    start = kinds.start(other).checkpoint()
    with store.database.write() as connection:
        connection.execute(update(checkpoints).values(data=start))
    assert train(claim) == 0
    assert told(store, claim.run_id) == trained(config)


def test_progress_that_was_told_is_no_part_of_what_must_come_again(
    store, config, train
):
    run = store.create(config, visitor="ann")
    claim = store.leases.claim()
    progress = Event("progress", {"what": "features", "done": 1, "total": 2})
    first, second, *_ = kinds.start(config).events()
    store.leases.append(claim, [progress, first, progress, second, progress])
    assert train(claim) == 0
    assert store.get(run.id).state == "done"
    kinds_told = [event.kind for event in store.events(run.id)]
    assert kinds_told[2:7:2] == ["progress"] * 3
    rest = [each for each in told(store, run.id) if each[0] != "progress"]
    assert rest == trained(config)


def test_a_resumed_run_that_does_not_repeat_itself_is_interrupted(store, train, begun):
    def change(event):
        is_target = event.kind == "step" and event.data["step"] == 5
        return (
            replace(event, data=event.data | {"epsilon": 9.9}) if is_target else event
        )

    claim = begun(15, 3, change)
    before = store.events(claim.run_id)
    assert train(claim) == 0
    ended = store.get(claim.run_id)
    assert (ended.state, ended.error["code"]) == ("interrupted", "replay_mismatch")
    assert "(step)" in ended.error["message"]
    after = store.events(claim.run_id)
    assert after[:-1] == before
    assert after[-1].ends_run


@pytest.mark.parametrize(
    ("checkpoint_after", "made_by"),
    [
        pytest.param(3, "", id="a program that did not give its name"),
        pytest.param(3, "0.0.9 of another program", id="another program"),
        pytest.param(None, None, id="one that was killed before its first checkpoint"),
    ],
)
def test_what_a_later_program_cannot_repeat_begins_again_beside_its_log(
    store, config, train, begun, checkpoint_after, made_by
):
    """The steps so far are a release: their log stays, with what they spent."""

    def change(event):
        return replace(event, data=event.data | {"seconds_of_old": 1})

    claim = begun(15, checkpoint_after, change, made_by)
    before = store.events(claim.run_id)
    assert train(claim) == 0
    ended = store.get(claim.run_id)
    assert (ended.state, ended.error["code"]) == ("interrupted", "upgraded")
    assert ended.error["message"].startswith("The site was upgraded during the run")
    assert store.events(claim.run_id)[:-1] == before
    begun_again = store.get(ended.error["run"])
    assert (begun_again.state, begun_again.parent) == ("queued", ended.id)
    assert (begun_again.config, begun_again.visitor) == (ended.config, "ann")
    assert train(store.leases.claim()) == 0
    assert told(store, begun_again.id) == trained(config)
    assert store.get(begun_again.id).state == "done"


def test_what_a_later_program_repeats_goes_on(store, config, train, begun):
    claim = begun(15, 3, made_by="0.0.9 of another program")
    assert train(claim) == 0
    assert told(store, claim.run_id) == trained(config)
    assert store.leases.claim() is None


def test_a_run_that_its_visitor_stopped_does_not_begin_again(store, train, begun):
    claim = begun(15, 3, lambda event: replace(event, data={"step": 99}), "older")
    store.cancel(claim.run_id, "ann")
    train(claim)
    assert store.get(claim.run_id).error["message"].endswith("Start the run again.")
    assert store.counts()["queued"] == 0


def test_a_log_that_tells_more_than_the_run_is_a_mismatch(store, config, train, begun):
    claim = begun(None, 1)
    store.leases.append(claim, [Event("step", {"step": 21})])
    assert train(claim) == 0
    assert store.get(claim.run_id).error["code"] == "replay_mismatch"


def test_a_diverged_run_fails_with_reason_and_hint_and_no_nan(store, train):
    config = TrainingConfig.parse(
        {
            "model": "mlp",
            "private": False,
            "learning_rate": 10_000.0,
            "expected_batch_size": 64,
            "steps": 50,
        }
    )
    run = store.create(config, visitor="ann")
    assert train(store.leases.claim()) == 0
    ended = store.get(run.id)
    assert (ended.state, ended.error["code"]) == ("failed", "diverged")
    assert "Lower learning_rate" in ended.error["message"]
    text = " ".join(event.data for event in store.events(run.id))
    assert "NaN" not in text
    assert "Infinity" not in text


def test_a_run_that_refutes_its_promise_fails_and_leaves_no_weights(
    store, train, monkeypatch
):
    """Half the noise is planted in the process of the run."""
    real = SeededNoise.add_to
    monkeypatch.setattr(
        SeededNoise, "add_to", lambda noise, x, std, by: real(noise, x, std / 2, by)
    )
    few = {"steps": 30, "evaluations": 1, "audit": 8000, "target_epsilon": 2.0}
    adult = {"dataset": "adult", "model": "logistic", "expected_batch_size": 2048}
    run = store.create(TrainingConfig.parse(adult | few), visitor="ann")
    assert train(store.leases.claim()) == 0
    ended = store.get(run.id)
    assert (ended.state, ended.error["code"]) == ("failed", "privacy_violation")
    assert "2.00" in ended.error["message"]
    assert store.weights(run.id) is None
    assert "end" not in {event.kind for event in store.events(run.id)}


@pytest.fixture
def pictures():
    """A run that needs features, in the fewest steps."""
    return TrainingConfig.parse(
        {"expected_batch_size": 300, "steps": 1, "noise_multiplier": 1.0, "seed": 1}
    )


def test_a_run_says_how_far_its_features_are_while_it_computes_them(
    store, pictures, train, monkeypatch
):
    monkeypatch.setattr(silence, "PROGRESS_SECONDS", 0.0)
    monkeypatch.setattr(features, "CHUNK_ROWS", 2_500)
    logs = []
    for _ in range(2):
        run = store.create(pictures, visitor="ann")
        assert train(store.leases.claim()) == 0
        logs.append(told(store, run.id))
        inputs._tables.cache_clear()  # as in another process
    progress = [data for _, data in logs[0] if data.get("what") == "features"]
    done = [data["done"] for data in progress]
    assert done[:4] == [2_500, 5_000, 7_500, 10_000]
    assert 10_000 < done[-1] < 11_000
    assert {(data["what"], data["total"]) for data in progress} == {
        ("features", 70_000)
    }
    assert [event for event in logs[0] if event[0] != "progress"] == logs[1]


def test_a_lost_lease_stores_nothing_and_says_so(store, config, train, clock):
    run = store.create(config, visitor="ann")
    old = store.leases.claim()
    clock.forward(LEASE_SECONDS + 1)
    store.leases.reap()
    before = store.events(run.id)
    assert train(old) == outcomes.EXIT_LEASE_LOST
    assert store.events(run.id) == before


def test_a_full_disk_ends_the_process_with_its_own_code(store, config, train, fill_up):
    run = store.create(config, visitor="ann")
    claim = store.leases.claim()
    fill_up()
    assert train(claim) == outcomes.EXIT_STORAGE_FULL
    stored = told(store, run.id)
    assert len(stored) < 41  # none, if the first lot already did not fit
    assert stored == trained(config)[: len(stored)]
    assert store.get(run.id).state == "running"  # its supervisor ends it


def test_the_weights_of_a_training_are_stored_with_its_receipt(store, train, config):
    run = store.create(config, visitor="ann")
    train(store.leases.claim(run.id))
    stored = store.weights(run.id)
    if config.kind != "training":
        assert stored is None
        return
    training = kinds.start(config)
    [*_, end] = training.events()
    weights = safetensors.torch.load(stored)
    assert weights.keys() == training.weights().keys()
    for name, tensor in training.weights().items():
        assert tensor.equal(weights[name])
    length = int.from_bytes(stored[:8], "little")
    about = json.loads(stored[8 : 8 + length])["__metadata__"]
    assert json.loads(about["receipt"]) == end.data["receipt"]
    assert TrainingConfig.model_validate_json(about["config"]) == config
