"""Worker processes fetch ahead; what is handed out, and saved, is as without them."""

import pickle

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import Dataset

from dpsgd_explorer.dp import PrivacyEngine
from dpsgd_explorer.errors import ConfigError, PrivacyError

SIZE = 20
EXPECTED = 1  # so that about a third of the batches are empty


class Items(Dataset):
    """Records that have to be made one by one."""

    def __len__(self):
        return SIZE

    def __getitem__(self, index):
        return torch.full((3,), float(index)), index % 2


def engine(physical_batch_size=None, batch_size=EXPECTED, steps=8):
    torch.manual_seed(0)
    model = nn.Linear(3, 2)
    made = PrivacyEngine(
        model,
        batch_size=batch_size,
        sample_size=SIZE,
        steps=steps,
        noise_multiplier=1.0,
        noise="seeded",
        seed=3,
        physical_batch_size=physical_batch_size,
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    made.attach(optimizer)
    return made, model, optimizer


def step(model, optimizer, records):
    x, y = records
    F.cross_entropy(model(x), y, reduction="sum").div(max(1, len(y))).backward()
    optimizer.step()
    optimizer.zero_grad()


def trained(workers, dataset, **sizes):
    """Return each part that was handed out, and the parameters at the end."""
    made, model, optimizer = engine(**sizes)
    parts = []
    for records in made.poisson_loader(dataset, num_workers=workers).all_epochs():
        parts.append(records[0][:, 0].tolist())
        step(model, optimizer, records)
    return parts, made, torch.cat([p.detach().flatten() for p in model.parameters()])


@pytest.mark.parametrize("sizes", [{}, {"physical_batch_size": 2, "batch_size": 5}])
def test_workers_hand_out_the_same_batches_empty_ones_included(sizes):
    alone, _, expected = trained(0, Items(), **sizes)
    shared, made, found = trained(2, Items(), **sizes)
    assert shared == alone
    assert torch.equal(found, expected)
    assert made.steps_done == 8
    assert sizes or [] in alone


def test_the_global_generator_is_left_alone():
    loader = engine()[0].poisson_loader(Items(), num_workers=1)
    before = torch.get_rng_state()
    next(iter(loader))
    assert torch.equal(before, torch.get_rng_state())


def test_tensors_come_by_workers_too():
    columns = (torch.arange(3.0 * SIZE).view(SIZE, 3), torch.arange(SIZE) % 2)
    assert trained(1, columns)[0] == trained(0, columns)[0]


def test_a_state_saved_meanwhile_is_that_of_the_last_batch_handed_out():
    whole, _, expected = trained(0, Items())
    made, model, optimizer = engine()
    loader = iter(made.poisson_loader(Items(), num_workers=1))
    for _ in range(3):
        step(model, optimizer, next(loader))
    saved, weights = made.state_dict(), model.state_dict()
    assert saved["sampler"]["position"] == 3
    again, model, optimizer = engine()
    model.load_state_dict(weights)
    again.load_state_dict(saved)
    rest = []
    for records in again.poisson_loader(Items(), num_workers=1):
        rest.append(records[0][:, 0].tolist())
        step(model, optimizer, records)
    assert rest == whole[3:]
    found = torch.cat([p.detach().flatten() for p in model.parameters()])
    assert torch.equal(found, expected)


def test_an_iteration_that_was_left_skips_nothing():
    whole, _, _ = trained(0, Items())
    made, model, optimizer = engine()
    seen = []
    for count in (2, 6):
        loader = iter(made.poisson_loader(Items(), num_workers=1))
        for _ in range(count):
            records = next(loader)
            seen.append(records[0][:, 0].tolist())
            step(model, optimizer, records)
        loader.close()
    assert seen == whole


def test_what_was_fetched_before_a_restore_is_void():
    made, model, optimizer = engine()
    loader = iter(made.poisson_loader(Items(), num_workers=1))
    step(model, optimizer, next(loader))
    made.load_state_dict(made.state_dict())
    with pytest.raises(PrivacyError, match="prefetched batches are no longer valid"):
        next(loader)


@pytest.mark.parametrize("workers", [-1, 1.5, "2"])
def test_a_number_of_workers_that_is_none_is_refused(workers):
    with pytest.raises(ConfigError, match="num_workers must be"):
        engine()[0].poisson_loader(Items(), num_workers=workers)


def test_what_workers_are_handed_can_be_sent_to_a_fresh_process():
    made, _, _ = engine()
    fetch = made.poisson_loader(Items(), num_workers=1)._fetch
    x, y = pickle.loads(pickle.dumps(fetch))(torch.tensor([4, 7]))
    assert (x[:, 0].tolist(), y.tolist()) == ([4.0, 7.0], [0, 1])
