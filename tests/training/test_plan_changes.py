"""Noise, batch size and steps changed while a run trains, and runs that go on."""

import itertools
from collections import Counter

import pytest

from dpsgd_explorer.dp.sampling import sampler
from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.experiments import kinds
from dpsgd_explorer.experiments.events import changes_of

pytestmark = pytest.mark.usefixtures("brief")

ADULT = {
    "dataset": "adult",
    "model": "logistic",
    "expected_batch_size": 24,
    "noise_multiplier": 1.0,
    "steps": 8,
    "evaluations": 2,
    "audit": 0,
}
BUDGET = ADULT | {"filter_epsilon": 40.0}
CHANGES = [
    (2, {"noise_multiplier": 0.9}),
    (3, {"expected_batch_size": 48, "max_grad_norm": 0.2}),
    (5, {"steps": 7, "learning_rate": 1.0}),
]
FURTHER, RATE = (8, {"further_steps": 3}), (9, {"learning_rate": 1.0})
LONG = pytest.mark.long("real runs")


def started(settings, changes=(), checkpoint=None):
    config = kinds.parse(settings)
    return kinds.start(config, changes=changes, checkpoint=checkpoint)


def told(run):
    return [event.timeless() for event in run.events()]


def of_kind(log, kind):
    return [data for name, data in log if name == kind]


@pytest.mark.parametrize(
    ("settings", "changes"),
    [
        pytest.param(BUDGET, CHANGES, marks=LONG),
        (BUDGET, [(2, {"steps": 2})]),
        pytest.param(BUDGET, [(3, {"noise_multiplier": 0.02})], marks=LONG),
        pytest.param(BUDGET, [*CHANGES, (7, {"further_steps": 2})], marks=LONG),
        pytest.param(BUDGET, [FURTHER, RATE, (11, {"further_steps": 1})], marks=LONG),
        (ADULT | {"private": False}, [(2, {"expected_batch_size": 48}), FURTHER]),
    ],
    ids=lambda value: str(value) if isinstance(value, list) else "",
)
def test_a_changed_run_killed_after_any_event_goes_on_with_the_very_next(
    settings, changes
):
    whole = told(started(settings, changes))
    assert changes_of(of_kind(whole, "phase")) == changes
    for count in range(len(whole) + 1):
        run = started(settings, changes)
        list(itertools.islice(run.events(), count))
        resumed = started(settings, changes, run.checkpoint())
        assert told(resumed) == whole[count:]


def test_each_step_has_the_noise_rate_and_bound_that_were_in_force(monkeypatch):
    log = told(started(BUDGET, CHANGES))
    [end] = of_kind(log, "end")
    receipt = end["receipt"]
    done = [line for one in receipt["before"] for line in one["done"]] + receipt["done"]
    rate = 24 / of_kind(log, "phase")[0]["sample_size"]
    found = [
        (x["steps"], x["noise_multiplier"], x["sample_rate"], x["max_grad_norm"])
        for x in done
    ]
    expected = [
        (2, 1.0, rate, 0.1),
        (1, 0.9, rate, 0.1),
        (2, 0.9, 2 * rate, 0.2),
        (2, 0.9, 2 * rate, 0.2),
    ]
    assert [pytest.approx(line) for line in expected] == found
    assert [line["noise_draws"] for line in done] == [2, 1, 2, 2]
    assert (end["step"], end["reason"]) == (7, "finished")


def test_the_whole_budget_is_what_a_filtered_run_claims():
    log = told(started(BUDGET, CHANGES))
    [end] = of_kind(log, "end")
    assert end["epsilon"] == end["receipt"]["epsilon"] == 40.0
    assert end["receipt"]["told"]["accountant"] == "filter"
    assert end["receipt"]["filter"]["status"] == "bound"
    counted = [data["epsilon"] for data in of_kind(log, "step")]
    assert counted == sorted(counted)
    assert counted[-1] < 40.0
    phases = of_kind(log, "phase")
    assert {phase["accountant"] for phase in phases} == {"filter"}
    assert len({phase["filter"]["order"] for phase in phases}) == 1


def test_a_step_that_would_exceed_the_budget_is_not_taken():
    log = told(started(BUDGET, [(3, {"noise_multiplier": 0.02})]))
    [end] = of_kind(log, "end")
    assert (end["step"], end["reason"]) == (3, "filter_epsilon")
    assert len(of_kind(log, "step")) == 3
    assert of_kind(log, "phase")[-1]["last_step"] == 3


def test_no_noise_and_no_batch_is_drawn_twice(monkeypatch):
    drawn = Counter()
    draw = sampler.PoissonSampler.draw

    def counting(self):
        batch = draw(self)
        drawn[tuple(batch.tolist())] += 1
        return batch

    monkeypatch.setattr(sampler.PoissonSampler, "draw", counting)
    told(started(BUDGET, [(k, {"steps": 9 + k}) for k in range(1, 6)]))
    assert max(drawn.values()) == 1
    run = started(BUDGET, CHANGES)
    told(run)
    engines = run.receipt()
    seeds = {engines["seed"], kinds.parse(BUDGET).seed}
    assert len(seeds) == 2


def test_a_run_that_has_ended_goes_on_within_its_budget():
    before = told(started(BUDGET))
    log = told(started(BUDGET, [FURTHER]))
    assert log[: len(before) - 1] == before[:-1]  # all but the end
    [end] = of_kind(log, "end")
    assert (end["step"], end["reason"], end["epsilon"]) == (11, "finished", 40.0)
    spent = [data["epsilon"] for data in of_kind(log, "step")]
    assert spent == sorted(spent)
    assert of_kind(before, "step")[-1]["epsilon"] < spent[-1] <= 40.0
    assert [one["done"][0]["steps"] for one in end["receipt"]["before"]] == [8]


def test_nothing_is_changed_once_the_last_step_is_done():
    run = started(BUDGET)
    whole = told(run)
    run.change({"noise_multiplier": 0.5, "learning_rate": 1.0})
    assert told(run) == []
    assert len(of_kind(whole, "phase")) == 1


def test_a_run_by_plan_is_not_continued_before_its_end():
    run = started(ADULT)
    list(itertools.islice(run.events(), 4))
    with pytest.raises(ConfigError, match="budget for changes"):
        run.change({"further_steps": 5})
    assert of_kind(told(run), "phase") == []
