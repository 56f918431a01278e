"""Each iteration of a loader is an epoch, in every mode of a run."""

import itertools
import math
from fractions import Fraction

import pytest
import torch
from torch.utils.data import Dataset

from dpsgd_explorer.accounting import Plan
from dpsgd_explorer.dp import PoissonSampler, PrivacyEngine, receipt_text
from dpsgd_explorer.errors import ConfigError, PrivacyError, PrivacyWarning
from tests.dp.nets import data, linear, step

SIZE, BATCH = 40, 9
SIZES = {"sample_size": SIZE, "batch_size": BATCH}
PLAN = Plan.create(
    sample_size=SIZE, expected_batch_size=BATCH, epochs=3, noise_multiplier=1.0,
    delta=1 / 80,
)  # fmt: skip
#: Mode of a run of three epochs, and options of its loader.
MODES = {
    "a target": ({"epochs": 3, "target_epsilon": 3.0}, {}),
    "noise and epochs": ({"epochs": 3, "noise_multiplier": 1.0}, {}),
    "noise and steps": ({"steps": PLAN.steps, "noise_multiplier": 1.0}, {}),
    "a plan": ({"plan": PLAN}, {}),
    "steps of the loader": (
        {"steps": 90, "noise_multiplier": 1.0},
        {"steps": PLAN.steps},
    ),
    "physical batches": (
        {"epochs": 3, "noise_multiplier": 1.0, "physical_batch_size": 2},
        {},
    ),
    "workers": ({"epochs": 3, "noise_multiplier": 1.0}, {"num_workers": 1}),
    "secure": ({"epochs": 3, "noise_multiplier": 1.0, "noise": "secure"}, {}),
}


def expected(epochs, size=SIZE, batch=BATCH):
    """Return the number of batches of each epoch."""
    ends = [math.ceil(Fraction(e * size, batch)) for e in range(epochs + 1)]
    return [after - before for before, after in itertools.pairwise(ends)]


def started(**options):
    """Return (net, optimizer, engine)."""
    net = linear()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    sizes = {} if "plan" in options else SIZES
    noise = {} if "noise" in options else {"noise": "seeded", "seed": 3}
    engine = PrivacyEngine(net, **sizes, **noise, **options)
    engine.attach(optimizer)
    return net, optimizer, engine


def train(run, loader, most=None):
    """Train on an iteration of a loader, or leave it early; return its steps."""
    net, optimizer, engine = run
    before = engine.steps_done
    for x, y in loader:
        step(net, optimizer, x, y)
        optimizer.zero_grad()
        if engine.steps_done - before == most:
            break
    return engine.steps_done - before


@pytest.mark.parametrize("mode", MODES)
def test_the_natural_loop_trains_every_epoch_and_then_says_that_it_is_over(mode):
    options, of_loader = MODES[mode]
    run = started(**options)
    engine = run[2]
    loader = engine.poisson_loader(data(), **of_loader)
    lengths, done = [], []
    for _epoch in range(3):
        lengths.append(len(loader))
        done.append(train(run, loader))
    assert done == lengths == expected(3)
    assert sum(done) == PLAN.steps
    assert len(loader) == 0
    for iterate in (loader.__iter__, loader.all_epochs):
        with pytest.raises(PrivacyError, match="all 14 planned batches"):
            next(iterate())
    assert engine.get_epsilon() > 0


def test_an_open_ended_run_has_the_same_epochs_without_end():
    run = started(noise_multiplier=1.0)
    loader = run[2].poisson_loader(data())
    assert [train(run, loader) for _ in range(10)] == expected(10)
    with pytest.raises(ConfigError, match="open-ended"):
        next(loader.all_epochs())


@pytest.mark.parametrize(
    ("size", "batch", "epochs"), [(60_000, 256, 3), (7, 7, 4), (1001, 10, 9), (5, 3, 7)]
)
def test_epochs_add_up_to_the_plan(size, batch, epochs):
    plan = Plan.create(
        sample_size=size, expected_batch_size=batch, epochs=epochs,
        noise_multiplier=0.0, delta=1e-6,
    )  # fmt: skip
    sampler = PoissonSampler(plan, torch.Generator())
    found = []
    for _epoch in range(epochs):
        found.append(len(sampler))
        sampler.position += len(sampler)
    assert found == expected(epochs, size, batch)
    assert sum(found) == plan.steps


def test_a_fraction_of_an_epoch_ends_the_last_iteration():
    run = started(epochs=2.5, noise_multiplier=1.0)
    loader = run[2].poisson_loader(data())
    done = [train(run, loader) for _ in range(3)]
    whole = expected(2)
    assert done == [*whole, math.ceil(Fraction(5 * SIZE, 2 * BATCH)) - sum(whole)]


def test_a_new_loader_for_each_epoch_is_the_same():
    run = started(epochs=3, noise_multiplier=1.0)
    done = [train(run, run[2].poisson_loader(data())) for _ in range(3)]
    assert done == expected(3)


@pytest.mark.parametrize("workers", [0, 1])
def test_an_epoch_that_was_left_is_completed_by_the_next_iteration(workers):
    run = started(epochs=3, noise_multiplier=1.0)
    loader = run[2].poisson_loader(data(), num_workers=workers)
    first, second, third = expected(3)
    assert train(run, loader, most=2) == 2
    assert len(loader) == first - 2
    assert train(run, loader) == first - 2
    # Left after the last batch of an epoch, there is nothing to complete.
    assert train(run, loader, most=second) == second
    assert train(run, loader) == third


def test_all_epochs_are_what_is_left():
    run = started(epochs=3, noise_multiplier=1.0)
    loader = run[2].poisson_loader(data())
    train(run, loader, most=2)
    assert train(run, loader.all_epochs()) == PLAN.steps - 2


@pytest.mark.parametrize("most", [2, None])
def test_a_resumed_run_goes_on_in_its_epoch(most):
    run, other = (started(epochs=3, noise_multiplier=1.0) for _ in range(2))
    train(run, run[2].poisson_loader(data()), most)
    other[2].load_state_dict(run[2].state_dict())
    other[0].load_state_dict(run[0].state_dict())
    for each in (run, other):
        loader = each[2].poisson_loader(data())
        rest = [train(each, loader) for _ in range(2 if most is None else 3)]
        assert sum(rest) == PLAN.steps - (most or expected(1)[0])
    assert torch.equal(run[0].weight, other[0].weight)


@pytest.mark.parametrize("options", [{}, {"physical_batch_size": 2}])
def test_the_length_stays_while_an_iteration_runs(options):
    run = started(epochs=3, noise_multiplier=1.0, **options)
    net, optimizer, engine = run
    loader = engine.poisson_loader(data())
    for length in expected(3):
        for x, y in loader:
            assert len(loader) == length
            step(net, optimizer, x, y)
            optimizer.zero_grad()


def test_an_abandoned_plan_is_said_by_engine_and_receipt_and_once_in_a_warning():
    run = started(epochs=3, noise_multiplier=1.0)
    engine = run[2]
    loader = engine.poisson_loader(data())
    train(run, loader)
    told = f"{expected(1)[0]} of {PLAN.steps} planned steps"
    assert told in repr(engine)
    with pytest.warns(PrivacyWarning, match=told) as caught:
        engine.receipt()
    assert caught[0].filename == __file__
    assert told in receipt_text(engine.receipt())  # without a second warning
    engine.detach()


def test_a_plan_that_another_engine_goes_on_from_is_not_called_abandoned():
    first = started(epochs=3, noise_multiplier=1.0)
    train(first, first[2].poisson_loader(data()))
    first[2].detach()
    second = started(epochs=1, noise_multiplier=1.0, after=first[2])
    train(second, second[2].poisson_loader(data()))
    for engine in (first[2], second[2]):
        engine.receipt()


def test_a_finished_plan_is_said_without_a_warning():
    run = started(epochs=3, noise_multiplier=1.0)
    engine = run[2]
    train(run, engine.poisson_loader(data()).all_epochs())
    told = f"{PLAN.steps} of {PLAN.steps} planned steps"
    assert told in repr(engine)
    assert told in receipt_text(engine.receipt())
    engine.detach()


def test_a_loop_that_asks_for_epsilon_at_each_epoch_gets_no_warning():
    run = started(epochs=3, noise_multiplier=1.0)
    engine = run[2]
    loader = engine.poisson_loader(data())
    spent = []
    for _ in range(3):
        train(run, loader)
        spent.append(engine.get_epsilon())
        assert max(engine.get_epsilons().values()) >= spent[-1]
    assert 0 < spent[0] < spent[1] < spent[2]
    engine.receipt()
    engine.detach()


def test_epsilon_within_an_epoch_and_of_an_open_ended_run_is_said_without_a_word():
    net, optimizer, engine = started(epochs=3, noise_multiplier=1.0)
    for x, y in engine.poisson_loader(data()):
        step(net, optimizer, x, y)
        optimizer.zero_grad()
        assert engine.get_epsilon() > 0
    run = started(noise_multiplier=1.0)
    train(run, run[2].poisson_loader(data()))
    assert run[2].get_epsilon() > 0
    assert f"{expected(1)[0]} steps, open-ended" in repr(run[2])


class Items(Dataset):
    """Records by index."""

    def __len__(self):
        return SIZE

    def __getitem__(self, index):
        return data()[0][index], data()[1][index]


def test_a_loader_names_its_parts_as_other_libraries_do():
    engine = started(epochs=3, noise_multiplier=1.0)[2]
    records = Items()
    loader = engine.poisson_loader(records, num_workers=1)
    assert loader.dataset is records
    assert (loader.num_workers, loader.batch_size) == (1, None)
    assert isinstance(loader.batch_sampler, PoissonSampler)
    assert callable(loader.collate_fn)
