"""Several optimizers share the steps of one engine."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn, optim

from dpsgd_explorer.dp import PrivacyEngine
from dpsgd_explorer.dp.config import ENGINES
from dpsgd_explorer.errors import PrivacyError
from tests.dp.nets import CLASSES, POISSON, backward, data

ENGINE = pytest.mark.parametrize("engine", sorted(ENGINES))
AT_STEP = pytest.mark.parametrize(
    "engine", [name for name, each in ENGINES.items() if not each.releases_in_backward]
)


def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, CLASSES))


def pair(model):
    """Return Muon for the matrices and AdamW for the rest, as it is used."""
    matrices = [p for p in model.parameters() if p.dim() == 2]
    others = [p for p in model.parameters() if p.dim() != 2]
    return optim.Muon(matrices, lr=0.02), optim.AdamW(others, lr=0.01)


def engine_of(model, engine="hooks", **options):
    return PrivacyEngine(
        model,
        **POISSON | {"noise": "seeded", "seed": 3, "steps": 5, "engine": engine},
        **options,
    )


def step_with_gradients_of(optimizer, reference):
    """Move the reference's parameters by the gradients that the optimizer had."""
    ours, theirs = (
        [p for group in each.param_groups for p in group["params"]]
        for each in (optimizer, reference)
    )
    for p, q in zip(ours, theirs, strict=True):
        q.grad = p.grad.clone()
    reference.step()


@ENGINE
@pytest.mark.parametrize("parts", [None, 3])
@pytest.mark.parametrize("order", ["step step zero zero", "step zero step zero"])
def test_two_optimizers_make_one_step_of_each_batch(engine, parts, order):
    """Each moves its parameters as it would with the noisy gradient alone."""
    model = net()
    twin = copy.deepcopy(model)
    optimizers, references = pair(model), pair(twin)
    own = engine_of(model, engine, physical_batch_size=parts)
    own.attach(*optimizers)
    for x, y in own.poisson_loader(data()):
        before = own.steps_done
        backward(model, x, y)
        for each, reference in zip(optimizers, references, strict=True):
            each.step()
            if own.steps_done > before:
                step_with_gradients_of(each, reference)
            if order == "step zero step zero":
                each.zero_grad()
        for each in optimizers:
            each.zero_grad()
        assert own.steps_done - before in (0, 1)
    assert own.steps_done == 5
    done = own.receipt()["done"]
    assert [(line["steps"], line["noise_draws"]) for line in done] == [(5, 5)]
    for p, q in zip(model.parameters(), twin.parameters(), strict=True):
        assert torch.equal(p, q)
    single = engine_of(copy.deepcopy(twin), engine)
    only = optim.SGD(single.module.parameters(), lr=0.1)
    single.attach(only)
    for x, y in single.poisson_loader(data()):
        backward(single.module, x, y)
        only.step()
        only.zero_grad()
    assert single.get_epsilon() == own.get_epsilon()


@AT_STEP
def test_an_optimizer_may_sit_out_a_batch_and_none_steps_twice(engine):
    model = net()
    first, second = pair(model)
    own = engine_of(model, engine)
    own.attach(first, second)
    batches = iter(own.poisson_loader(data()))
    bias = model[0].bias.detach().clone()
    backward(model, *next(batches))
    first.step()
    with pytest.raises(PrivacyError, match="none ran since the last step"):
        first.step()
    first.zero_grad()
    second.zero_grad()
    with pytest.raises(PrivacyError, match="none ran since the last step"):
        second.step()  # its gradients are gone
    assert torch.equal(model[0].bias, bias)
    backward(model, *next(batches))
    second.step()
    first.step()
    assert own.steps_done == 2
    assert not torch.equal(model[0].bias, bias)


@AT_STEP
def test_a_gradient_from_elsewhere_between_the_steps_is_refused(engine):
    model = net()
    first, second = pair(model)
    own = engine_of(model, engine)
    own.attach(first, second)
    backward(model, *next(iter(own.poisson_loader(data()))))
    first.step()
    with pytest.raises(PrivacyError, match="between backward and optimizer"):
        model[0].bias.square().sum().backward()
    model[0].bias.grad = torch.ones_like(model[0].bias)
    with pytest.raises(PrivacyError, match="did not go through the engine"):
        second.step()
    own.detach()
    assert all(p.grad is None or not p.grad.is_meta for p in model.parameters())


@ENGINE
def test_each_parameter_must_be_in_one_optimizer(engine):
    model = net()
    own = engine_of(model, engine)
    half = optim.SGD(model[0].parameters(), lr=0.1)
    whole = optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(PrivacyError, match=r"does not train 2\.weight, 2\.bias.*every"):
        own.attach(half)
    with pytest.raises(PrivacyError, match=r"once, got 0\.bias, 0\.weight twice"):
        own.attach(half, whole)
    own.attach(half, optim.Adam(model[2].parameters()))
    own.detach()


class Critic(nn.Module):
    """A discriminator of pairs: a record, and a made-up one beside it."""

    def __init__(self):
        super().__init__()
        self.score = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))

    def forward(self, real, made_up):
        return self.score(real).squeeze(1), self.score(made_up).squeeze(1)


@ENGINE
def test_a_private_discriminator_and_a_generator_that_sees_no_data(engine):
    """The engine has the discriminator; the generator's steps are post-processing."""
    torch.manual_seed(0)
    critic, generator = Critic(), nn.Linear(2, 4)
    optimizer = optim.Adam(critic.parameters(), lr=0.01)
    other = optim.Adam(generator.parameters(), lr=0.01)
    own = PrivacyEngine(
        critic, **POISSON, steps=5, engine=engine, loss_reduction="mean"
    )
    own.attach(optimizer)
    x, _ = data()
    for (real,) in own.poisson_loader((x,)):
        with torch.no_grad():
            made_up = generator(torch.randn(len(real), 2))
        true, false = critic(real, made_up)
        (F.softplus(-true).mean() + F.softplus(false).mean()).backward()
        optimizer.step()
        optimizer.zero_grad()
        before = [p.detach().clone() for p in critic.parameters()]
        critic.requires_grad_(False)
        F.softplus(-critic.score(generator(torch.randn(8, 2)))).mean().backward()
        other.step()
        other.zero_grad()
        critic.requires_grad_(True)
        assert all(map(torch.equal, critic.parameters(), before))
    assert own.steps_done == 5
    assert own.diagnostics.batch_size == len(real)
    assert 0 < own.get_epsilon() < 100
