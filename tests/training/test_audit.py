"""A training run audits itself: nothing else changes, and a refuted promise ends it."""

import itertools

import pytest
import torch

from dpsgd_explorer.accounting import Odometer
from dpsgd_explorer.audit.receipts.verification import verify_receipt
from dpsgd_explorer.dp.engine import PrivacyEngine
from dpsgd_explorer.dp.ledger import seeds
from dpsgd_explorer.dp.noise.seeded import SeededNoise
from dpsgd_explorer.errors import ConfigError, PrivacyViolationError
from dpsgd_explorer.experiments import kinds
from dpsgd_explorer.training import train_step

ADULT = {
    "dataset": "adult",
    "model": "logistic",
    "expected_batch_size": 2048,
    "target_epsilon": 2.0,
    "steps": 8,
    "evaluations": 2,
    "audit": 200,
}


def carried_out(**settings):
    seeds._RUNS.clear()  # each run has a process of its own
    run = kinds.start(kinds.parse(ADULT | settings))
    return run, [event.timeless() for event in run.events()]


def end_of(log):
    kind, data = log[-1]
    assert kind == "end"
    return data


@pytest.mark.parametrize(
    "settings",
    [
        {},
        *(
            pytest.param(settings, marks=pytest.mark.long("real runs"))
            for settings in (
                {"engine": "microbatch", "expected_batch_size": 32},
                {"engine": "extending"},
                {"engine": "vmap", "noise_schedule": "linear"},
                {"clipping_schedule": "adaptive"},
                {"clipping_style": "layer-wise", "clipping_fn": "automatic"},
                {"filter_epsilon": 4.0},
                {"stop_at_epsilon": 1.0},
            )
        ),
    ],
    ids=lambda settings: "-".join(settings) or "usual",
)
def test_weights_and_events_are_the_same_with_an_audit_and_without(settings):
    (audited, log), (alone, bare) = (
        carried_out(**settings),
        carried_out(**settings | {"audit": 0}),
    )
    assert log[:-1] == bare[:-1]
    end, plain = end_of(log), end_of(bare)
    assert plain["audit"] is plain["receipt"]["audit"] is None
    assert end["audit"]["canaries"] == 200
    assert end["audit"]["steps"] == end["step"]
    without = {"audit": None, "receipt": end["receipt"] | {"audit": None}}
    assert end | without == plain
    weights = zip(audited.weights().values(), alone.weights().values(), strict=True)
    assert all(torch.equal(*pair) for pair in weights)
    assert verify_receipt(end["receipt"]).wrong == []


def test_the_end_of_a_run_makes_its_receipt_once(monkeypatch):
    made = []
    receipt = PrivacyEngine.receipt

    def counted(engine):
        made.append(receipt(engine))
        return made[-1]

    monkeypatch.setattr(PrivacyEngine, "receipt", counted)
    _, log = carried_out()
    assert [end_of(log)["receipt"]] == made


def test_a_resumed_run_ends_with_the_same_audit():
    _, whole = carried_out()
    run = kinds.start(kinds.parse(ADULT))
    list(itertools.islice(run.events(), 5))
    resumed = kinds.start(kinds.parse(ADULT), checkpoint=run.checkpoint())
    assert [event.timeless() for event in resumed.events()] == whole[5:]
    assert end_of(whole)["audit"]["steps"] == 8


@pytest.mark.parametrize(
    "settings",
    [{"private": False}, {"noise_multiplier": 0.0, "target_epsilon": None}],
    ids=["private", "noise"],
)
def test_where_nothing_is_promised_there_is_no_audit(settings):
    _, log = carried_out(**settings)
    assert end_of(log)["audit"] is None


CHANGED = ADULT | {"filter_epsilon": 9.0}
CHANGES = [
    (3, {"expected_batch_size": 1024, "noise_multiplier": 2.5}),
    (6, {"steps": 9, "max_grad_norm": 0.2}),
]


def test_the_canaries_of_a_changed_run_go_through_every_step():
    run = kinds.start(kinds.parse(CHANGED), changes=CHANGES)
    end = list(run.events())[-1].data
    receipt = end["receipt"]
    done = [line for one in receipt["before"] for line in one["done"]] + receipt["done"]
    found = [(x["steps"], x["sample_rate"]) for x in receipt["audit"]["phases"]]
    assert found == [(3, 2048 / 32561), (6, 1024 / 32561)]
    assert end["step"] == end["audit"]["steps"] == sum(x["steps"] for x in done) == 9
    assert end["audit"]["unscored"] == []
    assert verify_receipt(receipt).wrong == []
    spent = Odometer()
    for line in done:
        spent.add_dp_sgd(line["sample_rate"], line["noise_multiplier"], line["steps"])
    promised = spent.epsilon(end["delta"])
    assert end["audit"]["epsilon_promised"] == pytest.approx(promised, rel=1e-6)


@pytest.mark.parametrize("count", [5, 9, 12])
def test_a_changed_run_that_was_killed_ends_with_the_same_audit(count):
    """Killed within each of its plans."""

    def started(checkpoint=None):
        config = kinds.parse(CHANGED | {"evaluations": 1})
        return kinds.start(config, changes=CHANGES, checkpoint=checkpoint)

    whole = [event.timeless() for event in started().events()]
    run = started()
    list(itertools.islice(run.events(), count))
    resumed = [event.timeless() for event in started(run.checkpoint()).events()]
    assert resumed == whole[count:]
    assert end_of(whole)["audit"]["steps"] == 9


@pytest.mark.parametrize("audit", [-1, 2.5, True, 20_001, "many", None])
def test_canaries_that_no_run_can_have_are_refused_by_name(audit):
    with pytest.raises(ConfigError, match="audit") as refused:
        kinds.parse(ADULT | {"audit": audit})
    assert "audit" in refused.value.fields


@pytest.mark.long("real runs")
def test_half_the_noise_ends_a_run_as_refuted(monkeypatch):
    real = SeededNoise.add_to
    monkeypatch.setattr(
        SeededNoise, "add_to", lambda noise, x, std, by: real(noise, x, std / 2, by)
    )
    with pytest.raises(
        PrivacyViolationError, match=r"ε of at least .* instead of the promised 2\.00"
    ):
        carried_out(audit=8000, steps=30, evaluations=1)


@pytest.mark.long("real runs")
def test_a_proof_that_is_not_certain_fails_no_run(monkeypatch):
    """At 95 % an honest run may come out above its promise; it ends as ever."""
    seen = []
    real = PrivacyEngine.audit

    def audit(engine, delta=None, confidence=0.95):
        seen.append(confidence)
        return real(engine, delta, confidence)

    half = SeededNoise.add_to
    monkeypatch.setattr(
        SeededNoise, "add_to", lambda noise, x, std, by: half(noise, x, std / 2, by)
    )
    monkeypatch.setattr(PrivacyEngine, "audit", audit)
    _, log = carried_out(audit=2000, steps=30, evaluations=1)
    found = end_of(log)["audit"]
    assert found["epsilon_lower"] > found["epsilon_promised"]
    assert seen == [train_step.CONFIDENCE] == [1 - 1e-9]
