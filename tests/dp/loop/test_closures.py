"""The closure of a step runs once, before the release of its batch."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import optim

from dpsgd_explorer.errors import PrivacyError
from tests.dp.nets import attached, case, step


class Twice(optim.Optimizer):
    """Evaluates the loss before and after its update, as line searches do."""

    def __init__(self, params):
        super().__init__(params, {})

    @torch.no_grad()
    def step(self, closure=None):
        with torch.enable_grad():
            first = closure()
        for parameter in self.param_groups[0]["params"]:
            parameter -= 0.1 * parameter.grad
        with torch.enable_grad():
            return min(first, closure())


def closure_of(net, x, y):
    """Return a closure, and the losses that its calls have computed."""
    losses = []

    def closure():
        net.zero_grad()
        losses.append(F.cross_entropy(net(x), y))
        losses[-1].backward()
        return losses[-1]

    return closure, losses


@pytest.mark.parametrize("engine", ["hooks", "vmap", "microbatch"])
@pytest.mark.parametrize("name", ["args", "kwargs"])
def test_a_closure_runs_once_and_its_step_is_that_of_a_loop(engine, name):
    net, x, y = case("mlp")
    plain = copy.deepcopy(net)
    options = {"engine": engine, "noise_multiplier": 1.0}
    step(plain, attached(plain, **options)[1], x, y)
    own, optimizer = attached(net, **options)
    closure, losses = closure_of(net, x, y)
    with torch.no_grad():  # an optimizer enables gradients for its closure
        args = [closure] if name == "args" else []
        kwargs = {} if name == "args" else {"closure": closure}
        result = optimizer.step(*args, **kwargs)
    assert result is losses[0]
    assert len(losses) == own.steps_done == 1
    for p, expected in zip(net.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(p, expected, rtol=0, atol=0)


def test_a_closure_that_the_optimizer_calls_twice_is_refused():
    net, x, y = case("mlp")
    own, optimizer = attached(net, Twice(net.parameters()))
    closure, losses = closure_of(net, x, y)
    with pytest.raises(PrivacyError, match=r"closure must run once.+Use an optimizer"):
        optimizer.step(closure)
    assert len(losses) == own.steps_done == 1


def test_a_closure_without_one_whole_batch_is_refused():
    net, x, y = case("mlp")
    own, optimizer = attached(net, sampling="poisson")
    closure, _ = closure_of(net, x, y)
    with pytest.raises(PrivacyError, match="none was drawn"):
        optimizer.step(closure)
    optimizer.zero_grad()
    with pytest.raises(PrivacyError, match="must follow a backward"):
        optimizer.step(lambda: None)
    with pytest.raises(PrivacyError, match=r"no argument or with a closure, got int"):
        optimizer.step(3)
    assert own.steps_done == 0
