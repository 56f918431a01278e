"""A run on a site that measures keeps to the methods that its log names."""

from dataclasses import replace

import pytest

from dpsgd_explorer.experiments import kinds
from dpsgd_explorer.experiments.events import norm_methods_of
from dpsgd_explorer.experiments.experiment import PerformanceSettings
from dpsgd_explorer.runs.store.leases import LEASE_SECONDS
from dpsgd_explorer.runs.worker.child import carry_out
from tests.dp.timers import prefer
from tests.runs.real_runs import told
from tests.training.test_norm_methods import LSTM, timeless


@pytest.fixture
def train(store, settings):
    measuring = replace(settings, norm_methods="measured")

    def train(claim):
        return carry_out(store, claim, measuring, lease_s=LEASE_SECONDS)

    return train


@pytest.fixture
def config():
    return kinds.parse(LSTM)


def test_a_run_that_is_taken_over_keeps_the_methods_of_its_log(
    store, config, train, monkeypatch
):
    prefer(monkeypatch, "instantiate")
    whole = store.create(config, visitor="ann")
    assert train(store.leases.claim(whole.id)) == 0
    log = told(store, whole.id)
    assert list(norm_methods_of([log[0][1]]).values()) == ["instantiate"]
    # The first worker dies after the phase and before any checkpoint.
    run = store.create(config, visitor="ann")
    claim = store.leases.claim(run.id)
    begun = kinds.start(
        config,
        performance=PerformanceSettings(norm_methods="measured"),
    )
    store.leases.append(claim, [next(begun.events())])
    store.leases.release(claim, lost=True)
    prefer(monkeypatch, "ghost")
    assert train(store.leases.claim(run.id)) == 0
    assert store.get(run.id).state == "done"
    assert told(store, run.id) == log


def test_a_run_that_began_before_methods_were_measured_ends_as_it_began(
    store, config, train, monkeypatch
):
    prefer(monkeypatch, "instantiate")
    run = store.create(config, visitor="ann")
    claim = store.leases.claim(run.id)
    events = kinds.start(config).events()
    for _ in range(3):
        store.leases.append(claim, [next(events)])
    store.leases.release(claim, lost=True)
    assert train(store.leases.claim(run.id)) == 0
    assert store.get(run.id).state == "done"
    assert told(store, run.id) == timeless(kinds.start(config))
