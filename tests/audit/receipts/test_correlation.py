"""Receipts of correlated noise and fixed slots that no engine writes."""

import copy

import pytest
from torch import nn

from dpsgd_explorer.accounting import banded_strategy, geometric_strategy
from dpsgd_explorer.audit.receipts.verification import verify_receipt
from tests.dp.nets import attached, data, train

STEPS = 8
RUNS = {
    "bands": {
        "sampling": "poisson",
        "noise_correlation": banded_strategy(STEPS, 4),
    },
    "slots": {"sampling": "fixed_slots"},
    "weights": {
        "sampling": "fixed_slots",
        "noise_correlation": geometric_strategy(0.9, STEPS),
    },
}
#: A schedule that changes nothing.
CONSTANT = {"name": "linear", "to": 1.0}


@pytest.fixture(scope="module")
def receipts():
    """Return a receipt of each run, after all of its steps."""
    written = {}
    for name, options in RUNS.items():
        sizes = {"sample_size": 40, "batch_size": 5, "steps": STEPS}
        net = nn.Linear(4, 3)
        settings = sizes | {"noise_multiplier": 2.0, "seed": 5} | options
        engine, optimizer = attached(net, **settings)
        loaders = (engine.poisson_loader, engine.fixed_slots_loader)
        loader = loaders[options["sampling"] == "fixed_slots"]
        train(net, optimizer, loader(data()).all_epochs())
        written[name] = engine.receipt()
        assert verify_receipt(written[name]).wrong == []
    return written


def wrong(receipt, told=(), options=(), **others):
    """Return the places that are wrong in a receipt with other values."""
    changed = copy.deepcopy(receipt) | others
    changed["told"] |= dict(told)
    changed["options"] |= dict(options)
    return [one.path for one in verify_receipt(changed).wrong]


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize(
    ("name", "value"),
    [("noise_schedule", CONSTANT), ("clipping_schedule", CONSTANT), ("unit", "user")],
)
def test_a_receipt_has_only_options_that_the_engine_combines(
    receipts, run, name, value
):
    found = wrong(receipts[run], options={name: value})
    assert f"options.{name}" in found
    # With the schedule, bands had the epsilon of Poisson sampling, which is smaller.
    assert ("epsilon" in found) == (name == "noise_schedule")


@pytest.mark.parametrize("run", RUNS)
def test_one_process_draws_its_own_batches(receipts, run):
    assert "world_size" in wrong(receipts[run], world_size=2)
    unchecked = {"sampling": "unchecked"}
    assert "options.sampling" in wrong(
        receipts[run], options=unchecked, sampling="not checked"
    )


def test_the_bound_is_constant_where_later_noise_cancels_earlier_noise(receipts):
    found = {run: wrong(one, chosen_bounds=[[0, 1.0]]) for run, one in receipts.items()}
    place = ["chosen_bounds"]
    assert found == {"bands": place, "slots": [], "weights": place}


@pytest.mark.parametrize("number", [float("nan"), float("inf"), 1e200, True, "a", None])
def test_a_column_consists_of_numbers(receipts, number):
    for run, name in (("bands", "noise_correlation"), ("weights", "noise_weights")):
        column = [1.0, number, *receipts[run]["told"][name][2:]]
        found = wrong(receipts[run], told={name: column})
        assert f"told.{name}" in found


@pytest.mark.parametrize("run", ["bands", "weights"])
def test_a_strategy_has_a_number_of_steps(receipts, run):
    found = wrong(receipts[run], told={"planned_steps": None})
    assert "told.planned_steps" in found


def test_no_column_of_a_billion_steps_is_computed(receipts):
    found = wrong(receipts["weights"], told={"planned_steps": 10**9})
    assert found == ["epsilon"]


@pytest.mark.parametrize("run", ["slots", "weights"])
def test_no_slots_are_wrong(receipts, run):
    assert "told.slots" in wrong(receipts[run], told={"slots": 0})
