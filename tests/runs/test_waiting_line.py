"""Visitors take turns."""

import pytest


@pytest.fixture
def queue(store, config, clock):
    def queue(*visitors):
        made = []
        for visitor in visitors:
            made.append(store.create(config, visitor=visitor).id)
            clock.forward(0.1)
        return made

    return queue


def claimed(store, **limits):
    order = []
    while (claim := store.claim(**limits)) is not None:
        order.append(claim.run_id)
    return order


def test_runs_of_one_visitor_start_in_order(store, queue):
    made = queue(*["ann"] * 5)
    assert claimed(store) == made


def test_a_visitor_with_twenty_runs_delays_another_by_one(store, queue):
    anns = queue(*["ann"] * 20)
    assert store.claim().run_id == anns[0]
    (bobs,) = queue("bob")
    assert store.queue_position(bobs) == 1
    assert store.claim().run_id == bobs


def test_turns_alternate(store, queue):
    a1, a2, a3, b1, b2 = queue("ann", "ann", "ann", "bob", "bob")
    assert claimed(store) == [a1, b1, a2, b2, a3]


def test_the_position_is_that_in_which_runs_are_claimed(store, queue):
    made = queue("ann", "ann", "bob", "cy", "bob", "ann", "cy")
    positions = {run_id: store.queue_position(run_id) for run_id in made}
    assert sorted(positions.values()) == list(range(1, 8))
    assert claimed(store) == sorted(made, key=positions.get)
    assert [store.queue_position(run_id) for run_id in made] == [None] * 7


def test_runs_queued_at_the_same_moment_start_in_the_order_told(store, config):
    made = [store.create(config, visitor=visitor).id for visitor in "abcd"]
    positions = {store.queue_position(run_id): run_id for run_id in made}
    assert claimed(store) == [positions[place] for place in (1, 2, 3, 4)]


def test_a_visitor_at_the_limit_waits_and_others_pass(store, queue):
    a1, a2, b1 = queue("ann", "ann", "bob")
    assert claimed(store, running_per_visitor=1) == [a1, b1]
    assert store.overdue(0, running_per_visitor=1) == []
    assert claimed(store, running_per_visitor=2) == [a2]
