"""What lies between the parts: modes, sources of chance, which number is returned."""

import pytest
import torch
from torch import nn

from dpsgd_explorer.dp import PrivacyEngine
from dpsgd_explorer.dp.config import CHOICES
from tests.dp.nets import attached, clipped_sum, linear

SETTINGS = {"batch_size": 8, "sample_size": 40, "steps": 50, "noise_multiplier": 1.0}


@pytest.mark.parametrize("engine", CHOICES["engine"])
def test_dropout_stays_on_while_training(engine):
    net = nn.Sequential(nn.Linear(4, 64), nn.Dropout(0.5))
    attached(net, engine=engine)
    assert all(module.training for module in net.modules())
    torch.manual_seed(0)
    dropped = net(torch.randn(8, 4)) == 0
    assert 0.3 < dropped.double().mean().item() < 0.7
    assert all(module.training for module in net.modules())


def test_epsilon_is_epsilon():
    engine = PrivacyEngine(linear(), **SETTINGS)
    optimizer = torch.optim.SGD(engine.module.parameters(), lr=0.1)
    engine.attach(optimizer)
    (x,) = next(engine.poisson_loader((torch.randn(40, 4),)).all_epochs())
    engine.module(x).mean().backward()
    optimizer.step()
    assert engine.get_epsilon() == engine.plan.epsilon(1) > 0.1
    assert engine.get_epsilon(delta=1e-6) > engine.get_epsilon() > engine.plan.delta


def drawn(**options):
    engine = PrivacyEngine(linear(), **SETTINGS, **options)
    return [indices.tolist() for indices in engine._state.sampler.all_epochs()]


def test_nobody_can_repeat_the_batches_of_a_secure_run():
    assert drawn() != drawn()
    assert drawn(noise="seeded", seed=1) == drawn(noise="seeded", seed=1)


def test_a_secure_run_does_not_listen_to_torchs_seed():
    ends = []
    for _ in range(2):
        torch.manual_seed(0)
        net = nn.Linear(4, 3)
        engine = PrivacyEngine(net, **SETTINGS)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        engine.attach(optimizer)
        torch.manual_seed(0)
        (x,) = next(engine.poisson_loader((torch.zeros(40, 4),)).all_epochs())
        (net(x) * 0.0).mean().backward()
        optimizer.step()
        ends.append(net.weight.detach().clone())
    assert not torch.equal(*ends)


class Scaled(nn.Module):
    """Two layers whose outputs' gradients a hook of the user's changes."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(4, 6), nn.Linear(6, 3)

    def forward(self, x):
        hidden = self.first(x)
        scores = self.last(torch.tanh(hidden))
        if torch.is_grad_enabled():
            hidden.register_hook(lambda gradient: 3 * gradient)
            scores.register_hook(lambda gradient: gradient / 2)
        return scores


@pytest.mark.parametrize("engine", ["hooks", "extending"])
def test_what_a_users_hook_makes_of_a_gradient_is_clipped(engine):
    torch.manual_seed(0)
    net, x, y = Scaled(), torch.randn(8, 4), torch.randint(3, (8,))
    nn.functional.cross_entropy(net(x), y).backward()
    expected = {name: p.grad.clone() for name, p in net.named_parameters()}
    found = clipped_sum(
        net, x, y, engine=engine, max_grad_norm=1e6, clipping_fn="Abadi"
    )
    for name, gradient in expected.items():
        torch.testing.assert_close(found[name], len(x) * gradient, msg=name)
