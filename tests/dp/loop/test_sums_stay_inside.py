"""No sum without noise can be read from the model, its optimizer or a file of either.

After every event of a training loop, each tensor that hangs on the model, on one of its
parameters or on the optimizer is compared with the clipped sums that have no noise.
"""

import copy
import io
import weakref

import pytest
import torch
from torch import nn, optim

from dpsgd_explorer.dp import PrivacyEngine
from dpsgd_explorer.dp.config import ENGINES
from dpsgd_explorer.errors import PrivacyError
from tests.dp.engines.test_engines_agree import loop_sum
from tests.dp.nets import CLASSES, POISSON, backward, data

ENGINE = pytest.mark.parametrize("engine", sorted(ENGINES))
AT_STEP = [name for name, each in ENGINES.items() if not each.releases_in_backward]
#: Largest relative distance at which a tensor counts as a sum without noise.
CLOSE = 1e-2


class Layered(nn.Module):
    """Two layers and a buffer."""

    def __init__(self):
        super().__init__()
        self.hidden, self.head = nn.Linear(4, 5), nn.Linear(5, CLASSES)
        self.fails = FailsAfterwards()
        self.register_buffer("scale", torch.ones(1))

    def forward(self, x):
        return self.head(torch.tanh(self.fails(self.hidden(x))) * self.scale)


class KeepsGradients(optim.Optimizer):
    """Moves against the sign, and stores each gradient without a copy."""

    def __init__(self, parameters, lr):
        super().__init__(parameters, {"lr": lr})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    state = self.state[p]
                    state["older"] = state.get("previous")
                    state["previous"] = p.grad
                    state["value"] = p.grad.clone()
                    p.sub_(p.grad.sign(), alpha=group["lr"])


class FailsAfterwards(nn.Module):
    """Passes inputs on, and raises in backward while ``fails`` is set."""

    fails = False

    def forward(self, x):
        if self.fails and x.requires_grad:
            x.register_hook(self._raise)
        return x

    def _raise(self, gradient):
        raise KeyboardInterrupt


def net():
    torch.manual_seed(0)
    return Layered()


def tensors_in(value, path, seen):
    """Yield (path, tensor) of all tensors in nested attributes and containers."""
    if id(value) in seen or len(path) > 400:
        return
    seen[id(value)] = value  # kept alive, so that no other gets its number
    if isinstance(value, torch.Tensor):
        yield path, value
        inside = {"grad": value.grad} if value.is_leaf else {}
        inside |= vars(value)
    elif isinstance(value, dict):
        inside = value
    elif isinstance(value, list | tuple | set):
        inside = dict(enumerate(value))
    elif isinstance(value, nn.Module | optim.Optimizer):
        inside = vars(value)
    else:
        return
    for name, each in list(inside.items()):
        yield from tensors_in(each, f"{path}.{name}", seen)


def saved(value):
    """Return what a file of a whole object holds."""
    buffer = io.BytesIO()
    torch.save(value, buffer)
    buffer.seek(0)
    return torch.load(buffer, weights_only=False)


def found(model, optimizer):
    """Yield (path, tensor) of all tensors that a user, optimizer or file can read."""
    for path, each in (
        ("model", model),
        ("optimizer", optimizer),
        ("saved model", saved(model)),
        ("copied model", copy.deepcopy(model)),
        ("state of the optimizer", saved(optimizer.state_dict())),
    ):
        yield from tensors_in(each, path, {})


def values_of(tensor):
    """Return a tensor's entries; None where it has none to read."""
    try:
        return tensor.detach().double().flatten().clone()
    except PrivacyError:
        return None


class Watcher:
    """Compares all that can be read with sums without noise.

    Args:
        model, optimizer: Where tensors are looked for.
        divisor: The engine's.
    """

    def __init__(self, model, optimizer, divisor):
        self._model, self._optimizer, self._divisor = model, optimizer, divisor
        self.sums = []
        self.read = 0

    def look(self, event):
        """Fail if something holds one of the sums, or a sum over the divisor."""
        for path, tensor in found(self._model, self._optimizer):
            values = values_of(tensor)
            if values is None:
                continue
            self.read += 1
            for total in self.sums:
                for name, own in total.items():
                    secret = own.double().flatten()
                    if len(secret) != len(values):
                        continue
                    for scaled in (secret, secret / self._divisor):
                        distance = (values - scaled).norm() / scaled.norm()
                        assert distance > CLOSE, f"{event}: {path} is {name}'s sum"


def sum_of(model, x, y):
    """Return the clipped sum without noise, by one backward a sample of a copy."""
    return loop_sum(copy.deepcopy(model), x, y, "automatic", bound=1.0)


#: An empty batch has no sum that could be shown: one in 10⁷ of these is empty.
SIZE = 80
WITH_RECORDS = POISSON | {"sample_size": SIZE, "batch_size": 16}


def run(engine, parts, optimizer_kind, loop):
    """Run a loop with the engine; it is called with all that it needs."""
    model = net()
    optimizer = optimizer_kind(model.parameters(), lr=0.1)
    own = PrivacyEngine(
        model, **WITH_RECORDS, steps=4, engine=engine, physical_batch_size=parts
    )
    own.attach(optimizer)
    watcher = Watcher(model, optimizer, own.plan.expected_batch_size)
    loop(own, model, optimizer, watcher)
    assert watcher.read > 100
    return own


@ENGINE
@pytest.mark.parametrize("parts", [None, 3])
@pytest.mark.parametrize("kind", [optim.SGD, KeepsGradients])
def test_no_event_of_a_loop_shows_a_sum(engine, parts, kind):
    def loop(own, model, optimizer, watcher):
        seen = []
        for x, y in own.poisson_loader(data(SIZE)):
            same_batch = own.steps_done < len(watcher.sums)
            seen = [*(seen if same_batch else []), (x, y)]
            whole = [torch.cat(each) for each in zip(*seen, strict=True)]
            if len(whole[0]):
                watcher.sums = watcher.sums[: own.steps_done]
                watcher.sums.append(sum_of(model, *whole))
            outputs = model(x)
            watcher.look("forward")
            nn.functional.cross_entropy(outputs, y).backward()
            watcher.look("backward")
            optimizer.step()
            watcher.look("step")
            optimizer.zero_grad()
            watcher.look("zero_grad")

    run(engine, parts, kind, loop)


@pytest.mark.parametrize("where", ["in the loss", "in the module"])
@ENGINE
def test_no_exception_shows_a_sum(engine, where):
    if engine == "vmap" and where == "in the module":
        where = "in the loss"  # torch calls no hooks of mapped tensors

    def loop(own, model, optimizer, watcher):
        fails = model.fails
        for x, y in own.poisson_loader(data(SIZE)):
            watcher.sums.append(sum_of(model, x, y))
            model(x)  # the safety check for this size, which nothing interrupts
            fails.fails = where == "in the module"
            losses = nn.functional.cross_entropy(model(x), y, reduction="none")
            if where == "in the loss":
                losses.register_hook(interrupt)
            with pytest.raises(KeyboardInterrupt):
                losses.mean().backward()
            watcher.look("an interrupted backward")
            fails.fails = False
            handle = optimizer.register_step_post_hook(interrupt)
            backward(model, x, y)
            with pytest.raises(KeyboardInterrupt):
                optimizer.step()
            watcher.look("an interrupted step")
            handle.remove()
            optimizer.zero_grad()

    def interrupt(*_):
        raise KeyboardInterrupt

    run(engine, None, KeepsGradients, loop)


@ENGINE
def test_a_gradient_that_is_kept_stays_what_it_was(engine):
    """No copy is made of it: a view, an array or the tensor itself is held."""

    def loop(own, model, optimizer, watcher):
        kept = []
        for x, y in own.poisson_loader(data(SIZE)):
            backward(model, x, y)
            watcher.look("backward")
            for held, value in kept:
                assert torch.equal(torch.as_tensor(held), value)
            optimizer.step()
            weight, bias = model.head.weight.grad, model.head.bias.grad
            kept += [
                (weight.view(-1)[:3], weight.flatten()[:3].clone()),
                (bias.numpy(), bias.clone()),
            ]
            for p in model.parameters():
                state = optimizer.state[p]
                assert torch.equal(state["previous"], state["value"])
                older = state["older"]
                assert older is None or not torch.equal(older, p.grad)
            optimizer.zero_grad()

    run(engine, None, KeepsGradients, loop)


HELD = {
    "its base": lambda gradient: gradient._base,
    "its memory": lambda gradient: gradient.untyped_storage(),
    "a weak reference": weakref.ref,
}


@pytest.mark.parametrize("engine", sorted(ENGINES.keys() - {"extending"}))
@pytest.mark.parametrize("way", HELD)
def test_nothing_that_leads_to_a_gradient_leads_to_the_next_sum(engine, way):
    """The gradient itself is dropped; another object still reaches its memory.

    Under "extending" a gradient is private as soon as backward has returned.
    """

    def read(held):
        if isinstance(held, weakref.ref):
            return None if held() is None else held().flatten().clone()
        if isinstance(held, torch.UntypedStorage):
            held = torch.empty(0).set_(held)
        return None if held is None else held.flatten().clone()

    def loop(own, model, optimizer, watcher):
        held = None
        for x, y in own.poisson_loader(data(SIZE)):
            before = None if held is None else read(held)
            backward(model, x, y)
            after = None if held is None else read(held)
            assert before is None or after is None or torch.equal(before, after)
            optimizer.step()
            held = HELD[way](model.head.weight.grad)
            optimizer.zero_grad()
            watcher.look("zero_grad")

    run(engine, None, optim.SGD, loop)


@ENGINE
def test_an_ordinary_step_allocates_no_other_buffer(engine):
    addresses = set()

    def loop(own, model, optimizer, watcher):
        for x, y in own.poisson_loader(data(SIZE)):
            backward(model, x, y)
            optimizer.step()
            addresses.add(model.head.weight.grad.data_ptr())
            optimizer.zero_grad()
            watcher.look("step")

    run(engine, None, optim.Adam, loop)
    assert len(addresses) == 1
