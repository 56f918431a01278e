"""An interrupt, wherever it comes, leaves the model trainable and counts nothing twice.

A trace function raises KeyboardInterrupt where a function of the engine is entered, one
place after the other.  There Python handles signals such as Ctrl-C.
"""

import copy
import gc
import sys

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import dpsgd_explorer.dp
from dpsgd_explorer.dp import PrivacyEngine
from dpsgd_explorer.dp.config import ENGINES
from dpsgd_explorer.errors import PrivacyError
from tests.dp.nets import CLASSES, POISSON, attached, backward, clipped_sum, data

#: Places of a step that are interrupted; it has 150 to 2,000 calls.
PLACES = 25
#: Times that the check of a first pass stops the engine: to look for labels, small and
#: large batches, and for autograd's gradients.
STOPS = 3
OURS = dpsgd_explorer.dp.__path__[0]
#: Restores what a check has changed; a second interrupt there is not repaired.
CLEAN_UP = ("undisturbed", "restore")
#: any() drops it half used, and Python raises nothing from code that it closes.
CLOSED_BY_PYTHON = ("<genexpr>",)
ENGINE = pytest.mark.parametrize("engine", sorted(ENGINES))


class Checkpointed(nn.Module):
    """A layer that runs again in backward, attention, and a head."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 6)
        self.attention = nn.MultiheadAttention(6, 2, batch_first=True)
        self.head = nn.Linear(6, CLASSES)

    def forward(self, x):
        hidden = checkpoint(self.inside, x, use_reentrant=False)
        return self.head(torch.tanh(hidden))

    def inside(self, x):
        hidden = self.first(x).unsqueeze(1)
        return self.attention(hidden, hidden, hidden)[0].squeeze(1)


class Plain(Checkpointed):
    """The same without a checkpoint, which torch.func.vmap does not take."""

    def forward(self, x):
        return self.head(torch.tanh(self.inside(x)))


class Interrupt:
    """Raises KeyboardInterrupt at one of the calls of the engine's functions.

    Args:
        at: The number of the call; None counts them.
        inside: Counts only calls from a function of this name; None counts all.
    """

    def __init__(self, at=None, inside=None):
        self.at, self.inside, self.calls = at, inside, 0

    def __call__(self, frame, event, arg):
        code = frame.f_code
        skipped = CLEAN_UP + CLOSED_BY_PYTHON
        if self.inside not in (None, frame.f_back and frame.f_back.f_code.co_name):
            return
        if code.co_filename.startswith(OURS) and code.co_name not in skipped:
            self.calls += 1
            if self.calls == self.at:
                raise KeyboardInterrupt

    def __enter__(self):
        gc.collect()  # an engine that is collected meanwhile calls functions, too
        gc.disable()
        self._before = sys.gettrace()
        sys.settrace(self)
        return self

    def __exit__(self, *_):
        sys.settrace(self._before)
        gc.enable()


def model_for(engine):
    torch.manual_seed(0)
    return (Plain if engine == "vmap" else Checkpointed)()


def one_step(net, optimizer, x, y):
    backward(net, x, y)
    optimizer.step()
    optimizer.zero_grad()


@ENGINE
def test_an_interrupt_anywhere_leaves_the_model_trainable(engine):
    net = model_for(engine)
    x, y = data(6)
    own, optimizer = attached(net, engine=engine, steps=100_000, learning_rate=0.0)
    expected = clipped_sum(net, x, y, engine=engine)
    one_step(net, optimizer, x, y)
    with Interrupt() as count:
        one_step(net, optimizer, x, y)
    assert count.calls > 100
    fast = torch.backends.mha.get_fastpath_enabled()
    for at in range(1, count.calls, count.calls // PLACES):
        with pytest.raises(KeyboardInterrupt), Interrupt(at):
            one_step(net, optimizer, x, y)
        assert all(p.requires_grad for p in net.parameters()), at
        assert all(isinstance(p, nn.Parameter) for p in net.parameters()), at
        assert torch.backends.mha.get_fastpath_enabled() == fast, at
        optimizer.zero_grad()
        backward(net, x, y)
        optimizer.step()
        for name, p in net.named_parameters():
            torch.testing.assert_close(p.grad * 10, expected[name])
        optimizer.zero_grad()
    own.detach()
    backward(net, x, y)
    assert all(p.grad is not None for p in net.parameters())


@ENGINE
def test_an_interrupted_first_pass_is_checked_again(engine):
    net = model_for(engine)
    x, y = data(6)
    expected = clipped_sum(net, x, y, engine=engine)  # loads what a pass needs
    other = copy.deepcopy(net)
    kept = attached(other, engine=engine)
    with Interrupt() as count:
        other(x)
    kept[0].detach()
    for at in range(1, count.calls, count.calls // 4):
        fresh = copy.deepcopy(net)
        own, optimizer = attached(fresh, engine=engine, learning_rate=0.0)
        with pytest.raises(KeyboardInterrupt), Interrupt(at):
            fresh(x)
        assert all(p.requires_grad for p in fresh.parameters()), at
        backward(fresh, x, y)
        optimizer.step()
        for name, p in fresh.named_parameters():
            torch.testing.assert_close(p.grad * 10, expected[name])
        own.detach()


@ENGINE
def test_an_interrupt_while_an_engine_stops_leaves_it_whole(engine):
    """The first pass stops the engine for a moment, at STOPS places of the check.

    Each call inside ``stop`` is interrupted once, in one of them after the other.
    """
    net = model_for(engine)
    x, y = data(6)
    expected = clipped_sum(net, x, y, engine=engine)
    _, optimizer = attached(net, engine=engine, learning_rate=0.0)
    with Interrupt(inside="stop") as count:
        net(x)
    calls, rest = divmod(count.calls, STOPS)
    assert calls
    assert not rest
    for call in range(calls):
        at = 1 + call + call % STOPS * calls
        fresh = copy.deepcopy(net)
        own, optimizer = attached(fresh, engine=engine, learning_rate=0.0)
        with pytest.raises(KeyboardInterrupt), Interrupt(at, inside="stop"):
            fresh(x)
        backward(fresh, x, y)
        optimizer.step()
        for name, p in fresh.named_parameters():
            torch.testing.assert_close(p.grad * 10, expected[name])
        own.detach()


@ENGINE
def test_an_interrupted_attach_attaches_nothing(engine):
    net = model_for(engine)
    for _ in range(2):
        with Interrupt() as count:
            kept = attached(copy.deepcopy(net), engine=engine)
        kept[0].detach()
    for at in range(1, count.calls, count.calls // 6):
        optimizer = torch.optim.SGD(net.parameters(), lr=0.0)
        before = marks(net, optimizer)
        with pytest.raises(KeyboardInterrupt), Interrupt(at):
            attached(net, optimizer, engine=engine)
        assert marks(net, optimizer) == before, at
        own, _ = attached(net, optimizer, engine=engine)
        own.detach()


def marks(net, optimizer):
    """Return what attaching could leave behind."""
    kept = [(name, value) for m in net.modules() for name, value in vars(m).items()]
    hooks = [len(value or ()) for name, value in kept if name.endswith("_hooks")]
    names = [name for name, _ in kept]
    flags = [(p.requires_grad, p.grad, sorted(vars(p))) for p in net.parameters()]
    hooks += [len(p._post_accumulate_grad_hooks or ()) for p in net.parameters()]
    return hooks, names, flags, sorted(vars(optimizer)), net.training


@ENGINE
def test_detaching_heals_a_pass_that_never_ended(engine):
    """The interrupt is in the model's own code, in a hook that runs before ours end."""
    net = model_for(engine)
    x, y = data(6)
    own, optimizer = attached(net, engine=engine)

    def interrupt(*_):
        raise KeyboardInterrupt

    for where in (net.head.register_forward_hook, net.register_forward_hook):
        handle = where(interrupt)
        with pytest.raises(KeyboardInterrupt):
            net(x)
        handle.remove()
        assert all(p.requires_grad for p in net.parameters())
    own.detach()
    own.attach(optimizer)
    one_step(net, optimizer, x, y)
    assert own.steps_done == 1


class Trap:
    """Interrupts backward in a layer, at one of its gradients, once it is set."""

    def __init__(self, layer):
        self.countdown = 0
        layer.register_forward_hook(self._watch)

    def _watch(self, layer, args, out):
        if out.requires_grad:
            out.register_hook(self._count)

    def _count(self, gradient):
        self.countdown -= 1
        if self.countdown == 0:
            raise KeyboardInterrupt


@pytest.mark.parametrize("engine", ["hooks", "microbatch", "extending"])
def test_an_interrupted_backward_counts_no_sample_twice(engine):
    """Where samples come one by one, some are in the sum when the interrupt comes."""
    net = model_for(engine)
    x, y = data(6)
    expected = clipped_sum(net, x, y, engine=engine)
    trap = Trap(net.head)
    _, optimizer = attached(net, engine=engine, learning_rate=0.0)
    one_step(net, optimizer, x, y)
    trap.countdown = 4 if engine == "microbatch" else 1
    with pytest.raises(KeyboardInterrupt):
        backward(net, x, y)
    backward(net, x, y)  # no zero_grad: the engine itself drops what came
    optimizer.step()
    for name, p in net.named_parameters():
        torch.testing.assert_close(p.grad * 10, expected[name])


def test_an_interrupted_part_of_a_batch_spoils_it():
    net = model_for("microbatch")
    x, y = data(6)
    trap = Trap(net.head)
    _, optimizer = attached(net, engine="microbatch", learning_rate=0.0)
    backward(net, x[:3], y[:3])
    trap.countdown = 2
    with pytest.raises(KeyboardInterrupt):
        backward(net, x[3:], y[3:])
    for again in (lambda: backward(net, x[3:], y[3:]), optimizer.step):
        with pytest.raises(PrivacyError, match="was interrupted"):
            again()
    optimizer.zero_grad()
    backward(net, x, y)
    optimizer.step()
    expected = clipped_sum(model_for("microbatch"), x, y, engine="microbatch")
    for name, p in net.named_parameters():
        torch.testing.assert_close(p.grad * 10, expected[name])


@ENGINE
def test_a_drawn_batch_can_be_run_again_after_an_interrupt(engine):
    net = model_for(engine)
    own = PrivacyEngine(net, **POISSON, steps=3, engine=engine)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    own.attach(optimizer)
    batches = iter(own.poisson_loader(data()))
    x, y = next(batches)
    with pytest.raises(KeyboardInterrupt), Interrupt(at=100):
        backward(net, x, y)
    with pytest.raises(PrivacyError, match="run its forward and backward again"):
        next(batches)
    one_step(net, optimizer, x, y)
    own.detach()
    own.attach(optimizer)
    for x, y in own.poisson_loader(data()):
        one_step(net, optimizer, x, y)
    assert own.steps_done == 2  # the batch that was refused is gone
    own.get_epsilon()
