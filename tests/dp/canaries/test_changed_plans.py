"""Canaries of a run whose engines follow each other: all of its steps are scored."""

import statistics

import pytest
import torch

from dpsgd_explorer.accounting import Phase
from dpsgd_explorer.audit.receipts.verification import verify_receipt
from dpsgd_explorer.dp import PrivacyEngine
from dpsgd_explorer.dp.noise.seeded import SeededNoise
from dpsgd_explorer.errors import ConfigError
from tests.dp.canaries.test_canaries import (
    ADAPTIVE,
    DELTA,
    RECORDS,
    half_noise,
    made,
    train,
)

FIRST = {"batch_size": 20, "noise_multiplier": 1.45, "steps": 30, "seed": 5}
SECOND = {"batch_size": 10, "noise_multiplier": 1.0, "steps": 30, "seed": 6}


def begun(audit, **options):
    return made(audit, **{"target_epsilon": None} | FIRST | options)


def followed(first, audit, **options):
    """Return the next engine on the same model, and its optimizer."""
    first.detach()
    settings = {
        "sample_size": RECORDS,
        "target_delta": DELTA,
        "noise": "seeded",
        "audit": audit,
    }
    engine = PrivacyEngine(first.module, after=first, **settings | SECOND | options)
    optimizer = torch.optim.SGD(first.module.parameters(), 0.5)
    engine.attach(optimizer)
    return engine, optimizer


def trained_twice(audit, *, first=None, second=None):
    engine = train(*begun(audit, **(first or {})))
    return train(*followed(engine, audit, **(second or {})))


SHORT = {"steps": 4}


def test_the_audit_is_of_all_steps_and_their_own_settings():
    engine = trained_twice(40, first=SHORT, second=SHORT)
    found = engine.audit()
    assert found.steps == 8
    assert found.unscored == ()
    assert "Not scored" not in str(found)
    assert found.epsilon_promised == pytest.approx(engine.get_epsilon(), rel=1e-6)
    phases = [Phase(**phase) for phase in engine.receipt()["audit"]["phases"]]
    assert phases == [Phase(0.1, 1.45, 4), Phase(0.05, 1.0, 4)]


def test_canaries_keep_their_coins_and_their_scores_add_up():
    first = train(*begun(40, **SHORT))
    before = first._state.canaries
    coins, scores = before.joined.copy(), before.scores.copy()
    second = train(*followed(first, 40, **SHORT))
    canaries = second._state.canaries
    assert (canaries.joined == coins).all()
    own = second.state_dict()["riders"]["scores"].numpy()
    assert (canaries.scores == scores + own).all()
    assert abs(own).min() > 0


def test_parameters_and_epsilon_are_the_same_with_canaries():
    alone, ridden = (trained_twice(n, first=SHORT, second=SHORT) for n in (0, 40))
    pairs = zip(alone.module.parameters(), ridden.module.parameters(), strict=True)
    assert all(torch.equal(*pair) for pair in pairs)
    assert alone.get_epsilon() == ridden.get_epsilon()
    receipt = ridden.receipt() | {"audit": None}
    assert len(receipt.pop("warnings")) == 1  # the seed was that of the run before
    assert alone.receipt() == receipt


def test_the_promise_counts_what_an_earlier_engine_released_beside_gradients():
    engine = trained_twice(40, first=SHORT | ADAPTIVE, second=SHORT)
    found, receipt = engine.audit(), engine.receipt()
    assert found.epsilon_promised == pytest.approx(engine.get_epsilon(), rel=1e-6)
    assert receipt["audit"]["phases"][0]["noise_multiplier"] > 1.45
    assert verify_receipt(receipt).wrong == []


@pytest.mark.parametrize(
    ("first", "words"),
    [
        ({"audit": 0}, "4 steps of an earlier engine without canaries"),
        ({"audit": 30}, "an earlier engine with 30 canaries, where this one has 40"),
        ({"audit_relation": "replace_one"}, "engine with audit_relation=replace_one"),
    ],
)
def test_steps_that_cannot_be_scored_are_named(first, words):
    engine = train(*begun(**{"audit": 40} | SHORT | first))
    second, optimizer = followed(engine, 40, **SHORT)
    assert words in str(second.audit())
    found = train(second, optimizer).audit()
    assert (found.steps, [x.steps for x in found.unscored]) == (4, [4])
    assert words in str(found)
    assert verify_receipt(second.receipt()).wrong == []


def test_a_gap_leaves_out_what_was_before_it():
    first = train(*begun(40, **SHORT))
    gap = train(*followed(first, 0, steps=3))
    last = train(*followed(gap, 40, steps=2, seed=7))
    found = last.audit()
    assert [x.steps for x in found.unscored] == [4, 3]
    assert found.steps == 2
    assert verify_receipt(last.receipt()).wrong == []


def test_lost_steps_of_any_engine_are_named():
    first, optimizer = begun(40, **SHORT, noise="secure")
    state = train(first, optimizer, steps=2).state_dict()
    first.detach()
    again, optimizer = begun(40, **SHORT, noise="secure")
    again.load_state_dict(state, lost_steps=1)
    train(again, optimizer)
    second = train(*followed(again, 40, **SHORT))
    found = second.audit()
    assert (found.steps, [x.steps for x in found.unscored]) == (7, [1])
    assert "1 steps lost before a resume" in str(found)
    assert verify_receipt(second.receipt()).wrong == []


def test_a_resumed_second_engine_has_the_same_scores():
    whole = trained_twice(40, first=SHORT, second=SHORT)
    first = train(*begun(40, **SHORT))
    second, optimizer = followed(first, 40, **SHORT)
    train(second, optimizer, steps=2)
    states = first.state_dict(), second.state_dict()
    weights, momentum = second.module.state_dict(), optimizer.state_dict()
    again, _ = begun(40, **SHORT)
    again.load_state_dict(states[0])
    rest, rest_optimizer = followed(again, 40, **SHORT)
    rest.load_state_dict(states[1])
    rest.module.load_state_dict(weights)
    rest_optimizer.load_state_dict(momentum)
    train(rest, rest_optimizer)
    assert rest.audit() == whole.audit()
    assert (rest._state.canaries.scores == whole._state.canaries.scores).all()


def test_the_canaries_of_another_run_are_refused():
    state = trained_twice(40, first=SHORT, second=SHORT).state_dict()
    other = train(*begun(40, **SHORT, seed=9))
    second, _ = followed(other, 40, **SHORT)
    with pytest.raises(
        ConfigError, match="the canaries of the engine passed as after="
    ) as raised:
        second.load_state_dict(state)
    assert raised.value.field == "audit"


@pytest.mark.parametrize("half", ["first", "second"])
def test_half_of_the_noise_in_either_phase_is_seen(half, monkeypatch):
    real = SeededNoise.add_to

    def with_bug(run):
        with monkeypatch.context() as patched:
            patched.setattr(
                SeededNoise, "add_to", lambda *args: half_noise(real, *args)
            )
            return run()

    def of_first():
        return train(*begun(10_000))

    engine = with_bug(of_first) if half == "first" else of_first()

    def of_second():
        return train(*followed(engine, 10_000))

    last = with_bug(of_second) if half == "second" else of_second()
    found = last.audit()
    assert found.steps == 60
    assert found.exceeds_promise


@pytest.mark.long("long statistics")
def test_a_change_of_plan_costs_little_of_what_is_proven():
    """Mean of 20 seeds, beside that of undisturbed runs with as large a promise."""
    changed, undisturbed = [], []
    for seed in range(20):
        settings = {"seed": 100 + seed}
        found = trained_twice(5000, first=settings, second={"seed": 300 + seed}).audit()
        assert found.steps == 60
        changed.append(found.epsilon_lower / found.epsilon_promised)
        whole, optimizer = made(
            5000, target_epsilon=found.epsilon_promised, seed=500 + seed
        )
        found = train(whole, optimizer).audit()
        undisturbed.append(found.epsilon_lower / found.epsilon_promised)
    means = statistics.mean(changed), statistics.mean(undisturbed)
    assert means[0] == pytest.approx(means[1], abs=0.06)
