"""Between backward and step a gradient is not there, and says so."""

import warnings

import pytest
import torch
import torch.nn.functional as F
from torch import nn, optim

from dpsgd_explorer.dp import PrivacyEngine
from dpsgd_explorer.dp.config import ENGINES
from dpsgd_explorer.errors import PrivacyError
from tests.dp.nets import attached, backward, case, data, linear, step

AT_STEP = pytest.mark.parametrize(
    "engine", [name for name, each in ENGINES.items() if not each.releases_in_backward]
)
#: What trainers and users do with gradients after backward.
USES = {
    "clip_grad_norm_": lambda p: nn.utils.clip_grad_norm_([p], 1.0),
    "clip_grad_value_": lambda p: nn.utils.clip_grad_value_([p], 1.0),
    "the norm": lambda p: p.grad.norm(),
    "an array": lambda p: p.grad.numpy(),
    "a list": lambda p: p.grad.tolist(),
    "a number": lambda p: p.grad.mean().item(),
    "a copy": lambda p: p.grad.clone(),
    "its data": lambda p: p.grad.data,
    "another": lambda p: p.grad.copy_(torch.ones_like(p)),
    "a penalty's": lambda p: p.square().sum().backward(),
    "zeros": lambda p: p.grad.zero_(),
    "unscaled": lambda p: torch._amp_foreach_non_finite_check_and_unscale_(
        [p.grad], torch.zeros(1), torch.ones(1)
    ),
}


@AT_STEP
@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_a_gradient_cannot_be_used_before_it_is_private(engine, use):
    net = linear()
    own, optimizer = attached(net, engine=engine)
    x, y = data(6)
    backward(net, x, y)
    with pytest.raises(PrivacyError, match=r"between backward and optimizer\.step"):
        use(net.weight)
    assert "private after step" in f"{net.weight.grad} {net.weight.grad!r}"
    optimizer.step()
    assert torch.isfinite(net.weight.grad).all()
    assert own.steps_done == 1


def test_the_noisy_gradient_can_be_clipped_in_a_hook_of_the_step():
    net = linear()
    _, optimizer = attached(net, noise_multiplier=1.0)
    optimizer.register_step_pre_hook(
        lambda *_: nn.utils.clip_grad_norm_(net.parameters(), 0.01) and None
    )
    step(net, optimizer, *data(6))
    norm = torch.cat([p.grad.flatten() for p in net.parameters()]).norm()
    assert norm.item() == pytest.approx(0.01, rel=1e-3)


def test_extending_hands_out_noisy_gradients_that_can_be_clipped():
    net = linear()
    _, _ = attached(net, engine="extending", noise_multiplier=1.0)
    backward(net, *data(6))
    assert nn.utils.clip_grad_norm_(net.parameters(), 0.01) > 0.01


@AT_STEP
def test_zero_grad_of_the_module_drops_the_batch(engine):
    net = linear()
    x, y = data(6)
    own, optimizer = attached(net, engine=engine, learning_rate=0.0)
    step(net, optimizer, x, y)
    expected = net.weight.grad.clone()
    optimizer.zero_grad()
    backward(net, x, y)
    net.zero_grad()
    step(net, optimizer, x, y)
    torch.testing.assert_close(net.weight.grad, expected)
    assert own.diagnostics.batch_size == 6
    net.zero_grad()
    backward(net, x, y)
    net.zero_grad()
    with pytest.raises(PrivacyError, match="none ran since the last step or zero_grad"):
        optimizer.step()


@AT_STEP
def test_gradients_of_some_parameters_cannot_be_dropped_alone(engine):
    net = linear()
    _, optimizer = attached(net, engine=engine)
    backward(net, *data(6))
    net.weight.grad = None
    with pytest.raises(PrivacyError, match="1 of 2 parameters were removed"):
        optimizer.step()
    with pytest.raises(PrivacyError, match="1 of 2 parameters were removed"):
        backward(net, *data(6))
    optimizer.zero_grad()
    step(net, optimizer, *data(6))


@pytest.mark.parametrize("engine", sorted(ENGINES))
@pytest.mark.parametrize("sampling", ["poisson", "unchecked"])
def test_gradients_of_inputs_add_nothing_to_the_step(engine, sampling):
    """As adversarial training asks for them (FGSM)."""
    net = linear()
    own, optimizer = attached(
        net, engine=engine, sampling=sampling, sample_size=40, learning_rate=0.0
    )
    x, y = data()
    if sampling == "poisson":
        batches = iter(own.poisson_loader((x, y)))
        x, y = next(batches)
    leaf = x.clone().requires_grad_()
    if engine in ("vmap", "microbatch"):  # these pass no gradient on to inputs
        with pytest.raises(RuntimeError, match="not have been used in the graph"):
            torch.autograd.grad(F.cross_entropy(net(leaf), y), leaf)
        leaf.grad = torch.ones_like(leaf)
    else:
        (found,) = torch.autograd.grad(F.cross_entropy(net(leaf), y), leaf)
        F.cross_entropy(net(leaf), y).backward(inputs=[leaf])
        torch.testing.assert_close(found, leaf.grad)
    attack = (x + 0.1 * leaf.grad.sign()).detach()
    step(net, optimizer, attack, y)
    sums = [p.grad.clone() for p in net.parameters()]
    assert own.diagnostics.batch_size == len(x)
    assert own.receipt()["loss"].startswith("checked")
    own.detach()
    again = linear()
    _, optimizer = attached(again, engine=engine, learning_rate=0.0)
    step(again, optimizer, attack, y)
    for p, total in zip(again.parameters(), sums, strict=True):
        torch.testing.assert_close(p.grad, total)


class Wrapper(optim.Optimizer):
    """As accelerate's: a subclass that never calls the constructor of Optimizer."""

    def __init__(self, optimizer):
        self.optimizer = optimizer

    @property
    def param_groups(self):
        return self.optimizer.param_groups

    def step(self, closure=None):
        self.optimizer.step()

    def zero_grad(self, set_to_none=True):
        self.optimizer.zero_grad(set_to_none)


class Duck:
    """As schedulers and trainers have them: an attribute and two methods."""

    def __init__(self, optimizer):
        self.optimizer = optimizer
        self.step, self.zero_grad = optimizer.step, lambda: optimizer.zero_grad()


@pytest.mark.parametrize("wrap", [Wrapper, Duck, lambda o: Duck(Wrapper(o))])
@pytest.mark.parametrize("engine", sorted(ENGINES))
def test_a_wrapped_optimizer_is_attached(engine, wrap):
    net = linear()
    inner = optim.SGD(net.parameters(), lr=0.1)
    wrapped = wrap(inner)
    own, _ = attached(net, wrapped, engine=engine)
    for _ in range(2):
        step(net, wrapped, *data(6))
        wrapped.zero_grad()
    assert own.steps_done == 2
    own.detach()


class Hollow(optim.Optimizer):
    """Never calls the constructor, and has nothing inside."""

    def __init__(self):
        """Do nothing."""


@pytest.mark.parametrize(
    "given", [(), (None,), (nn.Linear(1, 1),), (Hollow(),), ("sgd",)]
)
@pytest.mark.parametrize("engine", sorted(ENGINES))
def test_a_failed_attach_leaves_nothing_attached(engine, given):
    net, x, y = case("mlp")
    own = PrivacyEngine(
        net, batch_size=5, sample_size=100, noise_multiplier=1.0, engine=engine
    )
    with pytest.raises(ValueError, match=r"must get optimizers of torch.*got \w+"):
        own.attach(*given)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        backward(net, x, y)
    assert all(p.grad.abs().sum() > 0 for p in net.parameters())
    net.zero_grad()
    _, optimizer = attached(net, engine=engine)
    step(net, optimizer, x, y)
