"""Quotas and the price of a run."""

import contextlib

import pytest
from sqlalchemy import delete

from dpsgd_explorer.errors import ConfigError, QuotaError
from dpsgd_explorer.experiments.groups import MOST_RUNS
from dpsgd_explorer.quotas import QUOTAS
from dpsgd_explorer.runs.store.schema import launches, runs


def test_a_run_beyond_the_bound_is_refused_with_the_bound(limited, config):
    store = limited(cost_limit=config.cost - 1)
    with pytest.raises(ConfigError, match="multiply-adds") as refused:
        store.create(config, visitor="ann")
    assert refused.value.field == "steps"
    assert store.counts()["queued"] == 0
    assert limited(cost_limit=config.cost).create(config, visitor="ann")


def test_a_visitor_has_a_limit_on_queued_launches(limited, config):
    store = limited(queued=2)
    first, _ = (store.create(config, visitor="ann") for _ in range(2))
    with pytest.raises(QuotaError, match="2 launches in the queue") as refused:
        store.create(config, visitor="ann")
    assert refused.value.retry_after > 0
    store.create(config, visitor="bob")
    store.leases.claim(first.id)
    store.create(config, visitor="ann")


def test_the_queue_of_the_site_has_a_maximum(limited, config):
    store = limited(queued_in_all=2)
    for visitor in ("ann", "bob"):
        store.create(config, visitor=visitor)
    with pytest.raises(QuotaError, match="queue of this site already has 2 runs"):
        store.create(config, visitor="cy")


def test_a_visitor_has_a_daily_limit(limited, config, clock):
    store = limited(launches_a_day=2)
    store.create(config, visitor="ann")
    clock.forward(600)
    store.create(config, visitor="ann")
    with pytest.raises(QuotaError, match="2 launches in the last 24 hours") as refused:
        store.create(config, visitor="ann")
    assert refused.value.retry_after == 24 * 3600 - 600
    clock.forward(refused.value.retry_after + 1)
    store.create(config, visitor="ann")


def test_deleting_a_run_gives_no_launch_back(limited, config):
    store = limited(launches_a_day=1)
    run = store.create(config, visitor="ann")
    store.delete(run.id, "ann")
    with pytest.raises(QuotaError):
        store.create(config, visitor="ann")


def test_a_group_is_one_launch(limited, config, clock):
    store = limited(queued=1, launches_a_day=1)
    for _ in range(3):
        store.create(config, visitor="ann", group="sweep")
    assert store.launches_since("ann", clock()) == 1
    with pytest.raises(QuotaError):
        store.create(config, visitor="ann", group="another")


def test_a_group_costs_no_more_than_one_run(limited, config):
    store = limited(cost_limit=2.5 * config.cost)
    for _ in range(2):
        store.create(config, visitor="ann", group="sweep")
    with pytest.raises(ConfigError, match="multiply-adds together"):
        store.create(config, visitor="ann", group="sweep")
    store.create(config, visitor="bob", group="sweep")


def test_a_refused_launch_leaves_no_trace(limited, config, clock):
    store = limited(queued=0)
    with pytest.raises(QuotaError):
        store.create(config, visitor="ann")
    assert store.launches_since("ann", 0) == 0
    assert store.events_since(0, 10) == []


def test_launches_are_counted_from_a_time_on(store, config, clock):
    store.create(config, visitor="ann")
    clock.forward(10)
    store.create(config, visitor="ann")
    assert store.launches_since("ann", clock() - 5) == 1
    assert store.launches_since("ann", clock() - 10) == 2


def test_a_group_has_a_maximum_of_runs(limited, config):
    store = limited()
    for _ in range(MOST_RUNS):
        store.create(config, visitor="ann", group="sweep")
    with pytest.raises(QuotaError, match="Group 'sweep' already has 20 runs"):
        store.create(config, visitor="ann", group="sweep")
    store.create(config, visitor="bob", group="sweep")
    store.create(config, visitor="ann", group="another")


@pytest.mark.parametrize("network", ["", "192.0.2.0/24"])
def test_one_visitor_leaves_most_of_the_queue_to_others(
    limited, config, clock, network
):
    store = limited(queued_in_all=8, shares_queue=True)
    for _ in range(2):
        store.create(config, visitor="ann", network=network, group="mine")
    with pytest.raises(QuotaError, match="already have 2 runs queued") as refused:
        store.create(config, visitor="ann", network=network, group="mine")
    assert refused.value.retry_after > 0
    clock.forward(1)  # or who is next would be drawn
    store.create(config, visitor="bob")
    store.leases.claim()
    store.create(config, visitor="ann", network=network, group="mine")


def test_a_deleted_cookie_evades_no_quota(limited, config, clock):
    store = limited(launches_a_day=1, network_launches_a_day=3)
    here, there = "192.0.2.0/24", "198.51.100.0/24"
    names = iter(range(100))

    def launch(network):
        return store.create(config, visitor=f"new {next(names)}", network=network)

    for _ in range(3):
        launch(here)
    with pytest.raises(
        QuotaError, match=rf"{here} already has 3 launches in the last 24"
    ):
        launch(here)
    launch(there)
    clock.forward(24 * 3600 + 1)
    while store.leases.claim():
        pass
    launch(here)


def test_groups_of_one_name_count_for_each_visitor_of_a_network(limited, config):
    store = limited(network_launches_a_day=2)
    for visitor in ("ann", "ann", "bob", "bob"):
        store.create(config, visitor=visitor, network="192.0.2.0/24", group="sweep")
    with pytest.raises(QuotaError):
        store.create(config, visitor="cy", network="192.0.2.0/24", group="sweep")


def test_a_run_that_waits_for_days_keeps_its_launch(limited, config, clock):
    store = limited(queued=1, launches_a_day=1)
    store.create(config, visitor="ann")
    clock.forward(3 * 24 * 3600)
    with pytest.raises(QuotaError, match="1 launches in the queue"):
        store.create(config, visitor="ann")
    store.leases.claim()
    store.create(config, visitor="ann")


def test_the_public_profile_cannot_be_filled_by_one(limited, config):
    """With or without a cookie, in one group or many."""
    public = vars(QUOTAS["public"])
    for group in ("mine", ""):
        for names in (["ann"] * 55, [f"new {i}" for i in range(55)]):
            store, got = limited(**public), 0
            for visitor in names:
                with contextlib.suppress(QuotaError):
                    net = "192.0.2.0/24"
                    store.create(config, visitor=visitor, network=net, group=group)
                    got += 1
            assert 0 < got <= public["queued_in_all"] / 4
            store.create(config, visitor="eve", network="198.51.100.0/24")
            with store.database.write() as connection:
                connection.execute(delete(runs))
                connection.execute(delete(launches))


def test_the_local_profile_lets_a_visitor_do_anything(limited, config):
    store = limited(**vars(QUOTAS["local"]))
    for _ in range(30):
        store.create(config, visitor="ann")
