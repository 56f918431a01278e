"""Fabric sets model and optimizer up before or after ``attach``, with equal steps."""

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from dpsgd_explorer import dp
from dpsgd_explorer.errors import PrivacyError

lightning = pytest.importorskip("lightning")

WIDTH, CLASSES, COUNT = 4, 3, 12
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:lightning")


def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(WIDTH, 5), nn.Tanh(), nn.Linear(5, CLASSES))


def data():
    torch.manual_seed(1)
    return torch.randn(COUNT, WIDTH), torch.randint(CLASSES, (COUNT,))


def engine_of(module, **options):
    return dp.PrivacyEngine(
        module,
        batch_size=6,
        sample_size=COUNT,
        steps=3,
        noise_multiplier=1.0,
        noise="seeded",
        seed=1,
        **options,
    )


def train(engine, module, optimizer, backward=torch.Tensor.backward):
    for x, y in engine.poisson_loader(data()).all_epochs():
        backward(cross_entropy(module(x), y))
        optimizer.step()
        optimizer.zero_grad()


@pytest.mark.filterwarnings("ignore:another run in this process")
@pytest.mark.parametrize("order", ["before", "after"])
@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed"])
@pytest.mark.parametrize("engine_name", ["hooks", "vmap"])
def test_set_up_before_or_after_attach(order, precision, engine_name):
    plain, module = model(), model()
    plain_optimizer = torch.optim.SGD(plain.parameters(), lr=0.5)
    engine = engine_of(plain, engine=engine_name)
    engine.attach(plain_optimizer)
    train(engine, plain, plain_optimizer)

    fabric = lightning.Fabric(accelerator="cpu", precision=precision)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.5)
    if order == "before":
        wrapped, wrapped_optimizer = fabric.setup(module, optimizer)
        own = engine_of(wrapped, engine=engine_name)
        assert own.module is module
        own.attach(wrapped_optimizer)
    else:
        own = engine_of(module, engine=engine_name)
        own.attach(optimizer)
        wrapped, wrapped_optimizer = fabric.setup(module, optimizer)
    train(own, wrapped, wrapped_optimizer, fabric.backward)
    assert own.get_epsilon() == own.plan.epsilon()
    tolerance = 1e-6 if precision == "32-true" else 0.02
    for p, expected in zip(module.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(p, expected, rtol=0, atol=tolerance)


def test_another_hook_on_an_output_is_rejected_with_fabric_too():
    module = model()
    engine = engine_of(module, sampling="unchecked")
    optimizer = torch.optim.SGD(module.parameters(), lr=0.5)
    engine.attach(optimizer)
    module, optimizer = lightning.Fabric(accelerator="cpu").setup(module, optimizer)
    x, y = data()
    outputs = module(x)
    outputs.register_hook(lambda gradient: gradient - gradient.mean(0))
    with pytest.raises(PrivacyError, match=r"hook.+pass the wrapped module"):
        cross_entropy(outputs, y).backward()
