"""When a queued run is expected to start, on a clock that the tests move."""

import random

import pytest

from dpsgd_explorer.experiments.events import Event
from dpsgd_explorer.experiments.kinds import parse
from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.quotas import Quotas
from dpsgd_explorer.runs.store.store import RunStore
from tests.runs.real_runs import CHEAP

SECONDS = 40.0


@pytest.fixture
def make_store(database_url, clock):
    made = []

    def make(**limits):
        made.append(RunStore(database_url, clock=clock, lease_clock=clock, **limits))
        return made[-1]

    yield make
    for store in made:
        store.database.close()


@pytest.fixture
def train(store, clock):
    """Train one run of these settings at an even pace, to its end or up to a step."""

    def train(config, seconds=SECONDS, up_to=None):
        claim = begin(store, config)
        clock.forward(seconds)
        advance(store, claim, up_to or config.planned_steps)
        store.leases.finish(claim, "done")

    return train


def begin(store, config, visitor="ann"):
    run = store.create(config, visitor=visitor)
    return store.leases.claim(run.id)


def advance(store, claim, step):
    store.leases.append(
        claim, [Event("step", {"step": step, "epsilon": 0.5, "seconds": 1.0})]
    )


def queued(store, config, visitor="ann"):
    return store.create(config, visitor=visitor).id


def longer(config, times):
    return parse(CHEAP["training"] | {"steps": times * config.steps})


def test_before_any_run_was_done_only_the_place_is_known(store, config):
    begin(store, config)
    run_id = queued(store, config)
    assert store.queue_position(run_id) == 1
    assert store.expected_start_seconds(run_id) is None


def test_a_run_starts_at_once_where_a_worker_is_free(store, config):
    assert store.expected_start_seconds(queued(store, config)) == 0


def test_a_run_waits_for_what_is_left_of_the_one_that_trains(
    store, config, clock, train
):
    train(config)
    claim = begin(store, config)
    both = [queued(store, config), queued(store, config)]
    first, second = sorted(both, key=store.queue_position)
    assert store.expected_start_seconds(first) == pytest.approx(SECONDS)
    clock.forward(SECONDS / 4)
    advance(store, claim, config.steps // 4)
    left = 0.75 * SECONDS
    assert store.expected_start_seconds(first) == pytest.approx(left)
    assert store.expected_start_seconds(second) == pytest.approx(left + SECONDS)


def test_the_pace_of_the_run_that_trains_counts_more_the_further_it_is(
    store, config, clock, train
):
    train(config)
    claim = begin(store, config)
    run_id = queued(store, config)
    for twentieth in range(1, 20):
        clock.forward(3 * SECONDS / 20)  # three times as slow
        advance(store, claim, twentieth * config.steps // 20)
        share = twentieth / 20
        expected = (1 - share) * SECONDS * (3 * share + (1 - share))
        assert store.expected_start_seconds(run_id) == pytest.approx(expected)


def test_a_run_counts_by_its_cost(store, config, train):
    train(config)
    three = longer(config, 3)
    begin(store, three)
    expected = SECONDS * three.cost / config.cost
    assert expected > 1.5 * SECONDS
    run_id = queued(store, config)
    assert store.expected_start_seconds(run_id) == pytest.approx(expected)


def test_the_usual_speed_is_the_median_and_counts_the_steps_taken(store, config, train):
    train(config, 100 * SECONDS)
    train(config, SECONDS / 2, up_to=config.steps // 2)
    train(config, SECONDS / 10)
    begin(store, config)
    run_id = queued(store, config)
    assert store.expected_start_seconds(run_id) == pytest.approx(SECONDS)


def test_only_what_was_done_says_how_fast_runs_are(store, config, clock):
    for end in ("failed", "cancelled", "interrupted"):
        claim = begin(store, config)
        clock.forward(SECONDS)
        advance(store, claim, 3)
        store.leases.finish(claim, end)
    begin(store, config)
    assert store.expected_start_seconds(queued(store, config)) is None


def test_a_kind_that_nobody_has_seen_end_leaves_those_behind_it_open(
    store, config, clock, train
):
    train(config)
    begin(store, config)
    before = queued(store, config)
    clock.forward(0.5)
    other = queued(store, parse(CHEAP["regression"]))
    clock.forward(0.5)
    behind = queued(store, config)
    known = [store.expected_start_seconds(each) for each in (before, other)]
    assert known == pytest.approx([SECONDS + 1, 2 * SECONDS + 1])
    assert store.expected_start_seconds(behind) is None


def test_what_is_not_queued_starts_at_no_time(store, config, train):
    train(config)
    claim = begin(store, config)
    ended = next(run.id for run in store.runs_of("ann") if run.has_ended)
    for run_id in (claim.run_id, ended, "nobody's"):
        assert store.expected_start_seconds(run_id) is None


def test_setting_the_clock_makes_no_time_negative(store, config, clock, train):
    train(config, -SECONDS)
    begin(store, config)
    run_id = queued(store, config)
    assert store.expected_start_seconds(run_id) is None
    train(config)
    clock.forward(-1000 * SECONDS)
    assert store.expected_start_seconds(run_id) == pytest.approx(SECONDS)


@pytest.mark.parametrize(("workers", "limit"), [(1, None), (2, None), (2, 1), (3, 2)])
@pytest.mark.parametrize("seed", range(3))
def test_the_expected_starts_come_true_at_the_usual_pace(
    make_store, train, config, clock, workers, limit, seed
):
    store = make_store(workers=workers, quotas=Quotas(running=limit))
    train(config)
    chance = random.Random(seed)
    kinds = [longer(config, times) for times in (1, 2, 3)]
    chosen = [(chance.choice(kinds), chance.choice("aabc")) for _ in range(12)]
    made = [queued(store, each, visitor) for each, visitor in chosen]
    expected = {each: store.expected_start_seconds(each) for each in made}
    came = work_off(store, clock, config.cost, workers, limit)
    assert came == pytest.approx(expected, abs=1e-3)


def work_off(store, clock, cost_of_seconds, workers, limit):
    """Train all that is queued, each as long as it costs; return when each started."""
    begun, started, running = clock(), {}, []
    while True:
        while len(running) < workers:
            claim = store.leases.claim(running_per_visitor=limit)
            if claim is None:
                break
            started[claim.run_id] = clock() - begun
            run = store.get(claim.run_id)
            seconds = SECONDS * TrainingConfig.parse(run.config).cost / cost_of_seconds
            running.append((clock() + seconds, claim.run_id, claim))
        if not running:
            return started
        running.sort(key=lambda each: each[:2])
        end, _, claim = running.pop(0)
        clock.forward(end - clock())
        store.leases.finish(claim, "done")
