"""The safety check is made again where its proof ends."""

from itertools import pairwise

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from dpsgd_explorer.dp.config import CHOICES
from dpsgd_explorer.errors import PrivacyError, UnsupportedModuleError
from tests.dp.nets import POISSON, attached, train

ENGINE = pytest.mark.parametrize("engine", CHOICES["engine"])
WHOLE_BATCH = pytest.mark.parametrize("engine", ["hooks", "extending"])
"""Engines in which the module itself sees the whole batch."""


class Centred(nn.Module):
    """Takes the mean of the batch away where a condition holds."""

    def __init__(self, when=lambda module, x: True):
        super().__init__()
        self.when = when

    def forward(self, x):
        return x - x.mean(0) if self.when(self, x) else x


class ScaledInTraining(nn.Module):
    """Grows with the batch, in training mode only."""

    def forward(self, x):
        return x * (1 + len(x) / 10) if self.training else x


def net_with(inside):
    return nn.Sequential(nn.Linear(4, 6), inside, nn.Linear(6, 3))


def batch(size=8, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(size, 4, generator=generator), torch.arange(size) % 3


def step(net, optimizer, size=8):
    train(net, optimizer, [batch(size)])


def centre(module, args, output):
    return output - output.mean(0)


def swap(net):
    net[1] = Centred()


def swap_forward(net):
    net[1].forward = lambda x: x - x.mean(0)


def swap_class(net):
    net[1].__class__ = Centred
    net[1].when = lambda module, x: True


def hook_inside(net):
    net[1].register_forward_hook(centre)


def hook_before(net):
    net[1].register_forward_pre_hook(lambda module, args: args[0] - args[0].mean(0))


def hook_outside(net):
    net.register_forward_hook(centre)


def hook_that_hooks_a_tensor(net):
    def mix(module, args, output):
        if output.requires_grad:
            output.register_hook(lambda g: g - g.mean(0))

    net[1].register_forward_hook(mix)


CHANGES = [
    swap,
    swap_forward,
    swap_class,
    hook_inside,
    hook_before,
    hook_outside,
    hook_that_hooks_a_tensor,
]


@ENGINE
@pytest.mark.parametrize("change", CHANGES)
def test_a_module_changed_after_its_first_step_is_checked_again(change, engine):
    net = net_with(nn.Tanh())
    own, optimizer = attached(net, engine=engine)
    step(net, optimizer)
    change(net)
    for _ in range(2):  # and again, as long as it is unsound
        with pytest.raises(UnsupportedModuleError, match=r"mix|do not add up"):
            step(net, optimizer)
    assert own.steps_done == 1


def test_a_hook_on_all_modules_is_checked():
    net = net_with(nn.Tanh())
    _, optimizer = attached(net)
    step(net, optimizer)
    handle = nn.modules.module.register_module_forward_hook(centre)
    try:
        with pytest.raises(UnsupportedModuleError, match="mix"):
            step(net, optimizer)
    finally:
        handle.remove()
    step(net, optimizer)


def runs_of(net, optimizer):
    """Return how often the module runs in one step."""
    runs = []
    handle = net[1].register_forward_hook(lambda *_: runs.append(1))
    handle.remove()
    forward = type(net[1]).forward

    def counted(module, x):
        runs.append(1)
        return forward(module, x)

    type(net[1]).forward = counted
    try:
        step(net, optimizer)
        before = len(runs)
        step(net, optimizer)
    finally:
        type(net[1]).forward = forward
    return before, len(runs) - before


class OwnTanh(nn.Module):
    """A module whose class may be changed."""

    def forward(self, x):
        return x.tanh()


def test_another_forward_of_the_class_is_checked_once():
    net = net_with(OwnTanh())
    _, optimizer = attached(net)
    step(net, optimizer)
    first, second = runs_of(net, optimizer)
    assert first > 10
    assert second == 1


def look(module, args, output):
    module.looked = module.looked + 1


def test_a_sound_hook_is_proven_once_though_it_comes_and_goes():
    net = net_with(nn.Tanh())
    net[1].looked = 0
    _, optimizer = attached(net)
    step(net, optimizer)
    counts = []
    for _ in range(4):
        handle = net[1].register_forward_hook(look)
        step(net, optimizer)
        handle.remove()
        step(net, optimizer)
        counts.append(net[1].looked)
    assert counts[0] > 10
    assert [b - a for a, b in pairwise(counts)] == [1, 1, 1]


@ENGINE
def test_a_hook_on_an_output_of_the_module_is_refused(engine):
    net = net_with(nn.Tanh())
    own, optimizer = attached(net, engine=engine)
    step(net, optimizer)
    x, y = batch()
    out = net(x)
    out.register_hook(lambda g: g - g.mean(0))
    with pytest.raises(PrivacyError, match="hook was registered on an output"):
        F.cross_entropy(out, y).backward()
    optimizer.zero_grad()
    step(net, optimizer)
    assert own.steps_done == 2


LATE = {
    "more than three samples": lambda module, x: len(x) > 3,
    "large values": lambda module, x: bool(x.abs().max() > 60),
}


@WHOLE_BATCH
@pytest.mark.parametrize("when", LATE.values(), ids=LATE)
def test_mixing_that_begins_beyond_three_ordinary_samples_is_found(when, engine):
    net = net_with(Centred(when))
    _, optimizer = attached(net, engine=engine)
    with pytest.raises(UnsupportedModuleError, match=r"1 \(Centred\) mixes"):
        step(net, optimizer)


def test_mixing_that_begins_with_a_larger_batch_is_found():
    net = net_with(Centred(lambda module, x: len(x) > 20))
    own, optimizer = attached(net)
    for size in (0, 2, 5, 9):
        step(net, optimizer, size)
    with pytest.raises(UnsupportedModuleError, match="Centred"):
        step(net, optimizer, 24)
    assert own.steps_done == 4


def drawing(module, x):
    return len(x) > 26


def test_mixing_in_a_batch_that_may_be_drawn_is_found_before_it_is_drawn():
    """20 expected samples may become 47."""
    net = net_with(Centred(drawing))
    attached(net, **POISSON | {"batch_size": 20, "sample_size": 200})
    with pytest.raises(UnsupportedModuleError, match="Centred"):
        net(batch(20)[0])


def test_parts_are_checked_at_their_largest_size():
    net = net_with(Centred(drawing))
    sizes = {"batch_size": 20, "sample_size": 200, "physical_batch_size": 26}
    engine, optimizer = attached(net, **POISSON | sizes, steps=3)
    train(net, optimizer, engine.poisson_loader(batch(200)))
    assert engine.steps_done == 3
    net = net_with(Centred(drawing))
    sizes["physical_batch_size"] = 27
    attached(net, **POISSON | sizes)
    with pytest.raises(UnsupportedModuleError, match="Centred"):
        net(batch(20)[0])


@pytest.mark.parametrize("larger", [27, 39, 41])
def test_a_larger_batch_from_elsewhere_is_checked(larger):
    net = net_with(Centred(drawing))
    own, optimizer = attached(net)
    for size in (20, 26, 3, 26):
        step(net, optimizer, size)
    with pytest.raises(UnsupportedModuleError, match="Centred"):
        step(net, optimizer, larger)
    assert own.steps_done == 4


@WHOLE_BATCH
def test_a_size_dependence_in_training_mode_is_found(engine):
    net = net_with(ScaledInTraining())
    _, optimizer = attached(net, engine=engine)
    with pytest.raises(UnsupportedModuleError, match="depend on the batch size"):
        step(net, optimizer)


class Random(nn.Module):
    """Draws in training mode by most of torch's ways, and the batch second."""

    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(6, 2, dropout=0.3, batch_first=True)
        self.drop = nn.Dropout(0.4)
        self.alpha = nn.AlphaDropout(0.2)

    def forward(self, x):
        if not self.training:
            return x
        x = torch.stack([x, 2 * x], 1)
        x = self.attention(x, x, x, need_weights=False)[0]
        x = self.alpha(self.drop(x.transpose(0, 1))).transpose(0, 1)
        x = x + torch.randn_like(x) + torch.rand(len(x), 1, 1)
        x = x * torch.empty(len(x), 1, 1).bernoulli_(0.7).div_(0.7)
        x = x + x.new_empty(x.shape).exponential_(2.0)
        x = x + torch.empty(2, len(x), 6).uniform_(-1, 1).transpose(0, 1)
        x = x + torch.normal(torch.zeros(2, 6))
        return x.sum(1) * (torch.randint(1, 3, (len(x), 1)) > 0)


@pytest.mark.parametrize("engine", ["hooks", "extending"])
def test_random_modules_pass_in_training_mode(engine):
    net = net_with(Random())
    own, optimizer = attached(net, engine=engine)
    step(net, optimizer)
    step(net, optimizer, 9)
    assert own.steps_done == 2
