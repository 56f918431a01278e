"""Public rows get ordinary gradients, and private rows stay protected beside them."""

import contextlib

import pytest
import torch
from torch import nn
from torch.nn.functional import mse_loss
from torch.testing import assert_close

from dpsgd_explorer.dp import PrivacyEngine, per_sample_gradients
from dpsgd_explorer.errors import PrivacyError

ENGINES = ("hooks", "vmap", "microbatch")
BOUND = 0.5
RECORDS = torch.randn(40, 3, generator=torch.Generator().manual_seed(0))
TARGETS = torch.randn(40, 1, generator=torch.Generator().manual_seed(1))
PUBLIC = torch.randn(5, 3, generator=torch.Generator().manual_seed(2))
ZEROS = torch.zeros(5, 1)


def net():
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))


def attached(model, *optimizers, **options):
    settings = {
        "batch_size": 10,
        "sample_size": len(RECORDS),
        "steps": 8,
        "noise_multiplier": 0.0,
        "max_grad_norm": BOUND,
        "clipping_fn": "Abadi",
        "noise": "seeded",
        "seed": 7,
    } | options
    engine = PrivacyEngine(model, **settings)
    engine.attach(*(optimizers or [torch.optim.SGD(model.parameters(), lr=0.1)]))
    return engine


def batches(engine):
    return iter(engine.poisson_loader((RECORDS, TARGETS)))


def public_pass(engine, model):
    with engine.public():
        mse_loss(model(PUBLIC), ZEROS).backward()


def private_part(x, y):
    """Return the clipped sum over the expected batch size, from single gradients."""
    model = net()
    sums = {name: torch.zeros_like(p) for name, p in model.named_parameters()}
    for i in range(len(x)):
        model.zero_grad()
        mse_loss(model(x[i : i + 1]), y[i : i + 1]).backward()
        grads = {name: p.grad for name, p in model.named_parameters()}
        norm = torch.linalg.vector_norm(
            torch.cat([g.flatten() for g in grads.values()])
        )
        for name, gradient in grads.items():
            sums[name] += gradient * min(1.0, BOUND / norm.item())
    return {name: total / 10 for name, total in sums.items()}


def public_part():
    model = net()
    mse_loss(model(PUBLIC), ZEROS).backward()
    return {name: p.grad for name, p in model.named_parameters()}


def gradients(model):
    return {name: p.grad for name, p in model.named_parameters()}


def added(*parts):
    return {name: sum(part[name] for part in parts) for name in parts[0]}


@pytest.mark.parametrize("engine_name", ENGINES)
@pytest.mark.parametrize("order", ["before", "after", "both"])
def test_the_step_adds_an_ordinary_gradient_to_the_private_one(engine_name, order):
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    engine = attached(model, optimizer, engine=engine_name)
    x, y = next(batches(engine))
    if order != "after":
        public_pass(engine, model)
    mse_loss(model(x), y).backward()
    if order != "before":
        public_pass(engine, model)
    optimizer.step()
    publics = [public_part()] * (2 if order == "both" else 1)
    assert_close(gradients(model), added(private_part(x, y), *publics))
    optimizer.zero_grad()
    assert gradients(model) == dict.fromkeys(gradients(model))


def test_an_empty_batch_has_the_public_gradient_alone():
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    engine = attached(model, optimizer, batch_size=1, steps=200)
    loader = batches(engine)
    while len((batch := next(loader))[0]):
        mse_loss(model(batch[0]), batch[1]).backward()
        optimizer.step()
        optimizer.zero_grad()
    public_pass(engine, model)
    optimizer.step()
    assert_close(gradients(model), public_part())


def test_parts_of_a_batch_share_the_public_gradient():
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    engine = attached(model, optimizer, physical_batch_size=3)
    seen = []
    for x, y in batches(engine):
        seen.append((x, y))
        public_pass(engine, model)
        mse_loss(model(x), y).backward()
        optimizer.step()
        if gradients(model)["0.bias"] is not None and engine.steps_done:
            break
        optimizer.zero_grad()
    x, y = (torch.cat(rows) for rows in zip(*seen, strict=True))
    assert len(seen) > 1
    publics = [public_part()] * len(seen)
    assert_close(gradients(model), added(private_part(x, y), *publics))


@pytest.mark.parametrize("of_module", [False, True])
def test_zero_grad_drops_public_gradients(of_module):
    """The generator's step leaves gradients in the discriminator, which drops them."""
    model, generator = net(), nn.Linear(2, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    engine = attached(model, optimizer)
    x, y = next(batches(engine))
    with engine.public():
        model(generator(torch.ones(5, 2))).mean().backward()
    assert generator.weight.grad.abs().sum() > 0
    (model if of_module else optimizer).zero_grad()
    mse_loss(model(x), y).backward()
    optimizer.step()
    assert_close(gradients(model), private_part(x, y))


def test_two_optimizers_get_their_shares():
    model = net()
    first, second = (torch.optim.SGD(model[i].parameters(), lr=0.0) for i in (0, 2))
    engine = attached(model, first, second)
    x, y = next(batches(engine))
    mse_loss(model(x), y).backward()
    public_pass(engine, model)
    first.step()
    with pytest.raises(PrivacyError, match="after the steps of all optimizers"):
        public_pass(engine, model)
    second.step()
    assert_close(gradients(model), added(private_part(x, y), public_part()))


def test_epsilon_and_noise_are_those_of_the_private_rows():
    receipts = []
    for has_public in (False, True):
        model = net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        engine = attached(model, optimizer, noise_multiplier=1.0, steps=4)
        for x, y in batches(engine):
            optimizer.zero_grad()
            if has_public:
                public_pass(engine, model)
            mse_loss(model(x), y).backward()
            optimizer.step()
        receipts.append(engine.receipt())
    plain, public = receipts
    assert plain["epsilon"] == public["epsilon"] > 0
    assert plain["done"] == public["done"]
    assert "warnings" not in plain
    assert public["warnings"] == [
        "4 times the program declared rows public, which epsilon does not cover"
    ]


def test_a_restored_run_still_says_that_rows_were_public():
    model = net()
    engine = attached(model)
    public_pass(engine, model)
    model.zero_grad()
    other = attached(net())
    other.load_state_dict(engine.state_dict())
    assert "declared rows public" in other.receipt()["warnings"][0]


def test_a_private_pass_cannot_begin_in_public_and_end_outside():
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    engine = attached(model, optimizer)
    x, y = next(batches(engine))
    with engine.public():
        loss = mse_loss(model(x), y)
    loss.backward()
    with pytest.raises(PrivacyError, match="step must follow a backward"):
        optimizer.step()


def test_a_private_pass_cannot_end_in_public():
    model = net()
    engine = attached(model)
    x, y = next(batches(engine))
    loss = mse_loss(model(x), y)
    with pytest.raises(PrivacyError, match="backward came too late"), engine.public():
        loss.backward()
    assert all(p.grad is None for p in model.parameters())


@pytest.mark.parametrize("engine_name", ENGINES)
def test_an_error_in_public_leaves_nothing_behind(engine_name):
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    engine = attached(model, optimizer, engine=engine_name, steps=1)
    x, y = next(batches(engine))
    with contextlib.suppress(KeyError), engine.public():
        mse_loss(model(PUBLIC), ZEROS).backward()
        raise KeyError
    mse_loss(model(x), y).backward()
    optimizer.step()
    assert_close(gradients(model), private_part(x, y))
    assert "warnings" not in engine.receipt()


def test_steps_batches_and_public_itself_stay_outside():
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    engine = attached(model, optimizer)
    loader = batches(engine)
    with pytest.raises(PrivacyError, match="loader must come after"), engine.public():
        next(loader)
    with (
        pytest.raises(PrivacyError, match=r"step.*come after"),
        engine.public(),
    ):
        optimizer.step()
    with pytest.raises(PrivacyError, match="another public"), engine.public():
        public_pass(engine, model)
    assert engine.steps_done == 0


def test_a_detach_inside_leaves_an_ordinary_model():
    model = net()
    engine = attached(model)
    with engine.public():
        mse_loss(model(PUBLIC), ZEROS).backward()
        engine.detach()
    assert all(p.grad is None for p in model.parameters())
    mse_loss(model(PUBLIC), ZEROS).backward()
    assert_close(gradients(model), public_part())
    attached(model)


def test_gradients_of_others_are_not_taken_for_public_ones():
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    engine = attached(model, optimizer)
    model[0].bias.grad = torch.ones(4)
    with pytest.raises(PrivacyError, match="did not go through the engine"):
        public_pass(engine, model)
    model[0].bias.grad = None
    x, y = next(batches(engine))
    mse_loss(model(x), y).backward()
    optimizer.step()
    with pytest.raises(PrivacyError, match="old gradients are still there"):
        public_pass(engine, model)


def test_public_needs_an_engine_that_releases_in_the_step():
    model = net()
    engine = attached(model, engine="extending")
    with pytest.raises(PrivacyError, match="needs gradients that are released by"):
        public_pass(engine, model)
    engine.detach()
    with pytest.raises(PrivacyError):
        public_pass(engine, model)


def test_the_check_of_the_model_runs_once():
    """Hooks are taken off and put back, which is no change of the model."""
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    engine = attached(model, optimizer)
    forwards = []
    model[0].register_forward_pre_hook(lambda *_: forwards.append(1))
    counts = []
    for x, y in batches(engine):
        optimizer.zero_grad()
        before = len(forwards)
        mse_loss(model(x), y).backward()
        public_pass(engine, model)
        optimizer.step()
        counts.append(len(forwards) - before)
    assert set(counts[1:]) == {2}


def test_per_sample_gradients_of_public_rows_are_their_own_business():
    model = net()
    engine = attached(model)
    with engine.public():
        found = per_sample_gradients(model, mse_loss, PUBLIC, ZEROS)
    assert {name: len(rows) for name, rows in found.items()} == dict.fromkeys(
        public_part(), 5
    )
