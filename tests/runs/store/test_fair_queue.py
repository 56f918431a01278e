"""Visitors take turns."""

import random

import pytest

from tests.runs.servers import DATABASES as DATABASES


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
    while (claim := store.leases.claim(**limits)) is not None:
        order.append(claim.run_id)
    return order


def test_runs_of_one_visitor_start_in_order(store, queue):
    made = queue(*["ann"] * 5)
    assert claimed(store) == made


def test_a_visitor_with_twenty_runs_delays_another_by_one(store, queue):
    anns = queue(*["ann"] * 20)
    assert store.leases.claim().run_id == anns[0]
    (bobs,) = queue("bob")
    assert store.queue_place(bobs).position == 1
    assert store.leases.claim().run_id == bobs


def started_one_by_one(store, number=None):
    """Train what is next to its end, again and again: what one worker does."""
    order = []
    while len(order) != number and (claim := store.leases.claim()) is not None:
        order.append(claim.run_id)
        store.leases.finish(claim, "done")
    return order


def test_with_one_worker_too_a_visitor_with_twenty_runs_delays_another_by_one(
    store, queue
):
    anns = queue(*["ann"] * 20)
    first = store.leases.claim()
    bobs = queue("bob", "bob")
    assert [store.queue_place(run_id).position for run_id in bobs] == [1, 3]
    store.leases.finish(first, "done")
    order = started_one_by_one(store, 5)
    assert order == [bobs[0], anns[1], bobs[1], *anns[2:4]]


def test_who_comes_again_and_again_passes_nobody_twice(store, queue):
    queue(*["ann"] * 3)
    started_one_by_one(store, 1)
    for number in range(3):
        queue(f"new {number}")
    order = [store.get(run_id).visitor for run_id in started_one_by_one(store, 2)]
    queue("newer")
    rest = [store.get(run_id).visitor for run_id in started_one_by_one(store, 3)]
    assert (order, rest) == (["new 0", "new 1"], ["new 2", "ann", "newer"])


def test_deleting_what_was_trained_gives_no_earlier_turn(store, queue):
    anns = queue("ann", "ann", "ann")
    started_one_by_one(store, 1)
    (bobs,) = queue("bob")
    store.delete(anns[0], "ann")
    assert started_one_by_one(store, 1) == [bobs]


def test_a_run_that_lost_its_worker_goes_first_and_counts_once(store, queue):
    a1, a2 = queue("ann", "ann")
    claim = store.leases.claim()
    b1, c1 = queue("bob", "cy")
    store.leases.release(claim, lost=True)
    assert store.queue_place(a1).position == 1
    assert started_one_by_one(store) == [a1, b1, c1, a2]


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("seed", range(6))
def test_the_positions_come_true_whatever_went_before(store, queue, workers, seed):
    chance = random.Random(seed)
    running = []
    for _ in range(14):
        queue(chance.choice("abcd"))
        if len(running) == workers or (running and chance.random() < 0.3):
            store.leases.finish(running.pop(chance.randrange(len(running))), "done")
        if len(running) < workers and chance.random() < 0.5:
            running.append(store.leases.claim())
    queued = {run.id for visitor in "abcd" for run in store.runs_of(visitor)}
    places = {run_id: store.queue_place(run_id).position for run_id in queued}
    told = sorted((place, run_id) for run_id, place in places.items() if place)
    assert len(told) > 3
    came = []
    while claim := store.leases.claim():
        came.append(claim.run_id)
        running.append(claim)
        if len(running) >= workers:
            store.leases.finish(running.pop(chance.randrange(len(running))), "done")
    assert came == [run_id for _, run_id in told]


def test_turns_alternate(store, queue):
    a1, a2, a3, b1, b2 = queue("ann", "ann", "ann", "bob", "bob")
    assert claimed(store) == [a1, b1, a2, b2, a3]


def test_the_position_is_that_in_which_runs_are_claimed(store, queue):
    made = queue("ann", "ann", "bob", "cy", "bob", "ann", "cy")
    positions = {run_id: store.queue_place(run_id).position for run_id in made}
    assert sorted(positions.values()) == list(range(1, 8))
    assert claimed(store) == sorted(made, key=positions.get)
    assert [store.queue_place(run_id).position for run_id in made] == [None] * 7


def test_a_second_run_made_earlier_passes_nobody_whose_first_was(store, queue):
    a1, b1, b2, a2 = queue("ann", "bob", "bob", "ann")
    order = [a1, b1, a2, b2]
    assert [store.queue_place(run_id).position for run_id in order] == [1, 2, 3, 4]
    assert claimed(store) == order


def test_runs_queued_at_the_same_moment_start_in_the_order_told(store, config):
    made = [store.create(config, visitor=visitor).id for visitor in "abcdabcd"]
    positions = {store.queue_place(run_id).position: run_id for run_id in made}
    assert claimed(store) == [positions[place] for place in range(1, 9)]


def test_a_visitor_at_the_limit_waits_and_others_pass(store, queue):
    a1, a2, b1 = queue("ann", "ann", "bob")
    assert claimed(store, running_per_visitor=1) == [a1, b1]
    assert claimed(store, running_per_visitor=2) == [a2]
