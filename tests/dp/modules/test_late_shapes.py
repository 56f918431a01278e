"""Modules whose parameters get a size, or another dtype, after they were made."""

import copy

import pytest
import torch
from torch import nn, optim

from dpsgd_explorer.dp import (
    ParameterAverage,
    PrivacyEngine,
    make_private_ready,
    per_sample_gradients,
)
from dpsgd_explorer.dp.config import ENGINES
from dpsgd_explorer.errors import PrivacyError, UnsupportedModuleError
from tests.dp.nets import POISSON, data, linear, mlp, step

ENGINE = pytest.mark.parametrize("engine", sorted(ENGINES))
#: A conversion rounds the parameters, outside the steps.
WRITTEN = pytest.mark.filterwarnings("ignore:parameters were changed since")
CONVERSIONS = {
    "double": nn.Module.double,
    "half": nn.Module.half,
    "bfloat16": nn.Module.bfloat16,
}
STEPS = 4


def lazy():
    return nn.Sequential(nn.LazyLinear(6), nn.ReLU(), nn.Linear(6, 3))


def attach(net, **options):
    optimizer = optim.SGD(net.parameters(), lr=0.1)
    own = PrivacyEngine(net, **POISSON, steps=STEPS, **options)
    own.attach(optimizer)
    return own, optimizer


def run(net, own, optimizer, batches):
    for x, y in batches:
        step(net, optimizer, x.to(net[0].weight.dtype), y)
        optimizer.zero_grad()


USES = {
    "attach": attach,
    "make_private_ready": make_private_ready,
    "ParameterAverage": ParameterAverage,
    "per_sample_gradients": lambda net: per_sample_gradients(
        net, nn.functional.cross_entropy, *data()
    ),
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("kind", [lazy, lambda: nn.Sequential(nn.LazyBatchNorm1d())])
def test_a_lazy_layer_is_named_and_told_to_be_called_first(use, kind):
    with pytest.raises(UnsupportedModuleError, match=r"0 \(Lazy.*Call the module once"):
        USES[use](kind())


@ENGINE
def test_a_lazy_layer_trains_after_its_first_call(engine):
    net = lazy()
    with torch.no_grad():
        net(data()[0][:2])
    own, optimizer = attach(net, engine=engine)
    run(net, own, optimizer, own.poisson_loader(data()).all_epochs())
    assert own.get_epsilon() > 0


@WRITTEN
@ENGINE
@pytest.mark.parametrize("when", [0, 2])
@pytest.mark.parametrize("name", CONVERSIONS)
def test_a_conversion_while_attached_works_or_is_rejected(engine, when, name):
    net = mlp()
    own, optimizer = attach(net, engine=engine)
    batches = own.poisson_loader(data()).all_epochs()
    for _, batch in zip(range(when), batches, strict=False):
        run(net, own, optimizer, [batch])
    CONVERSIONS[name](net)
    if name in ("half", "bfloat16"):
        run(net, own, optimizer, batches)
        assert own.steps_done == STEPS
        return
    x, y = next(batches)
    before = copy.deepcopy(net.state_dict())
    with pytest.raises(PrivacyError, match=r"must keep their dtype.*engine.detach"):
        step(net, optimizer, x.to(net[0].weight.dtype), y)
    assert own.steps_done == when
    assert all(torch.equal(net.state_dict()[n], p) for n, p in before.items())


@WRITTEN
@ENGINE
def test_a_conversion_between_detach_and_attach_works(engine):
    net = linear()
    own, optimizer = attach(net, engine=engine)
    loader = own.poisson_loader(data())
    for x, y in loader:
        step(net, optimizer, x, y)
        optimizer.zero_grad()
        break
    own.detach()
    net.double()
    own.attach(optimizer)
    for x, y in loader:
        step(net, optimizer, x.double(), y)
        optimizer.zero_grad()
    assert own.steps_done == STEPS
    assert net.weight.dtype == torch.float64
