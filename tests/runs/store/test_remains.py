"""Weights of runs: of bounded size, and gone with their run."""

import pytest

from dpsgd_explorer.errors import LeaseLostError
from dpsgd_explorer.runs.store import remains


@pytest.fixture
def claimed(store, config):
    def claimed():
        return store.leases.claim(store.create(config, visitor="ann").id)

    return claimed


def test_weights_are_stored_replaced_and_gone_with_their_run(store, claimed, clock):
    claim = claimed()
    assert store.leases.save_weights(claim, b"first")
    assert store.leases.save_weights(claim, b"again")
    assert store.weights(claim.run_id) == b"again"
    assert store.weights_size(claim.run_id) == 5
    store.leases.finish(claim, "done")
    clock.forward(1)
    store.delete_ended(clock.now, 10)
    assert store.weights(claim.run_id) is None
    assert store.weights_size(claim.run_id) == 0


def test_a_worker_that_lost_the_run_stores_no_weights(store, claimed):
    claim = claimed()
    store.leases.finish(claim, "done")
    with pytest.raises(LeaseLostError):
        store.leases.save_weights(claim, b"late")
    assert store.weights(claim.run_id) is None


def test_weights_that_are_too_large_are_not_stored(store, claimed, monkeypatch):
    monkeypatch.setattr(remains, "MAX_RUN_BYTES", 4)
    claim = claimed()
    assert store.leases.save_weights(claim, b"four")
    assert not store.leases.save_weights(claim, b"fiver")


def test_beyond_the_bound_of_all_the_oldest_weights_go(
    store, claimed, clock, monkeypatch
):
    monkeypatch.setattr(remains, "MAX_TOTAL_BYTES", 10)
    claims = []
    for _ in range(4):
        claims.append(claimed())
        store.leases.save_weights(claims[-1], b"wide")
        clock.forward(1)
    stored = [store.weights(claim.run_id) is not None for claim in claims]
    assert stored == [False, False, True, True]
