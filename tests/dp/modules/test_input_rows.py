"""What one row a sample has is learnt: as many positions as samples change nothing."""

import copy

import pytest
import torch
from torch import nn

from dpsgd_explorer.dp import per_sample_gradients
from dpsgd_explorer.dp.config import CHOICES
from dpsgd_explorer.dp.modules.input_rows import InputRows
from tests.dp.nets import attached

STEPS = 5
SIZES = [1, STEPS - 1, STEPS, STEPS + 1]
ENGINES = sorted(CHOICES["engine"])


class SharedPositions(nn.Module):
    """Adds an embedding of the positions, the same for all samples."""

    def __init__(self):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(11, 6), nn.Embedding(7, 6)
        self.head = nn.Linear(6, 3)

    def forward(self, ids):
        places = self.positions(torch.arange(ids.shape[1]))
        return self.head(torch.tanh(self.tokens(ids) + places).mean(1))


class TimeFirst(nn.Module):
    """Runs a linear layer on steps, samples second."""

    def __init__(self):
        super().__init__()
        self.tokens, self.mix = nn.Embedding(11, 6), nn.Linear(6, 4)
        self.head = nn.Linear(4, 3)

    def forward(self, ids):
        steps = torch.tanh(self.mix(self.tokens(ids).transpose(0, 1)))
        return self.head(steps.sum(0))


class Masked(nn.Module):
    """Attends under a mask [T, T] that comes as an input, as do places [T]."""

    def __init__(self):
        super().__init__()
        self.tokens, self.places = nn.Embedding(11, 6), nn.Embedding(7, 6)
        self.queries, self.head = nn.Linear(6, 6), nn.Linear(6, 3)

    def forward(self, ids, mask, places=None, lengths=None):
        x = self.tokens(ids)
        if places is not None:
            x = x + self.places(places)
        scores = self.queries(x) @ x.transpose(1, 2) + mask
        if lengths is not None:
            late = torch.arange(ids.shape[1]) >= lengths.unsqueeze(1)
            scores = scores.masked_fill(late.unsqueeze(1), -1e9)
        return self.head((scores.softmax(2) @ x).mean(1))


def causal(steps=STEPS):
    return torch.full((steps, steps), -1e9, dtype=torch.float64).triu(1)


def drawn(size, steps=STEPS):
    torch.manual_seed(size)
    return torch.randint(0, 11, (size, steps)), torch.randint(0, 3, (size,))


def loop(net, call, labels, of=None):
    """Return {name: [B, *shape]} by back-propagating every sample alone.

    With the parameters of another net, if one is given.
    """
    net.load_state_dict((of or net).state_dict())
    found = {name: [] for name, _ in net.named_parameters()}
    for i in range(len(labels)):
        net.zero_grad()
        loss = nn.functional.cross_entropy(
            call(net, slice(i, i + 1)), labels[i : i + 1]
        )
        loss.backward()
        for name, p in net.named_parameters():
            found[name].append(
                torch.zeros_like(p) if p.grad is None else p.grad.clone()
            )
    net.zero_grad()
    return {name: torch.stack(rows) for name, rows in found.items()}


def clipped(gradients, bound):
    """Return {name: sum of rows, each shortened to the bound}."""
    squared = sum(g.flatten(1).square().sum(1) for g in gradients.values())
    factors = (bound / squared.sqrt()).clamp(max=1.0)
    return {n: torch.einsum("b,b...->...", factors, g) for n, g in gradients.items()}


def steps_of(engine, net, call, sizes, bound=0.05):
    """Return what an engine makes of batches of these sizes, in turn."""
    net = copy.deepcopy(net)
    _, optimizer = attached(
        net, engine=engine, clipping_fn="Abadi", max_grad_norm=bound,
        loss_reduction="sum", learning_rate=0.0, batch_size=1,
    )  # fmt: skip
    sums = []
    for size in sizes:
        ids, labels = drawn(size)
        outputs = call(ids)(net, slice(None))
        nn.functional.cross_entropy(outputs, labels, reduction="sum").backward()
        optimizer.step()
        sums.append({n: p.grad.clone() for n, p in net.named_parameters()})
        optimizer.zero_grad()
    return sums


def exact(actual, expected):
    torch.testing.assert_close(actual, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind", [SharedPositions, TimeFirst])
def test_per_sample_gradients_are_those_of_a_loop(kind, size):
    torch.manual_seed(0)
    net, (ids, labels) = kind().double(), drawn(size)
    found = per_sample_gradients(net, nn.functional.cross_entropy, ids, labels)
    expected = loop(net, lambda own, rows: own(ids[rows]), labels)
    exact(found, expected)


def plain(ids):
    return lambda net, rows: net(ids[rows])


def under_mask(ids):
    return lambda net, rows: net(ids[rows], causal())


def with_places(ids):
    return lambda net, rows: net(ids[rows], causal(), places=torch.arange(STEPS))


def with_lengths(ids):
    lengths = 1 + ids[:, 0] % STEPS
    return lambda net, rows: net(ids[rows], causal(), lengths=lengths[rows])


CALLS = {
    "positions": (SharedPositions, plain),
    "time first": (TimeFirst, plain),
    "mask": (Masked, under_mask),
    "mask and places": (Masked, with_places),
    "mask and lengths": (Masked, with_lengths),
}


@pytest.mark.sweep(2)
@pytest.mark.parametrize("sizes", [SIZES, [STEPS, 2, 3, 1]], ids=str)
@pytest.mark.parametrize("case", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("engine", ENGINES)
def test_engines_clip_what_a_loop_finds_at_every_size(engine, case, sizes):
    torch.manual_seed(0)
    kind, call = case
    net = kind().double()
    sums = steps_of(engine, net, call, sizes)
    for size, actual in zip(sizes, sums, strict=True):
        ids, labels = drawn(size)
        exact(actual, clipped(loop(net, call(ids), labels), 0.05))


class Chunks(TimeFirst):
    """Sends so many steps at a time through the layer: more calls for more steps."""

    def forward(self, ids):
        steps = self.tokens(ids).transpose(0, 1)
        mixed = [torch.tanh(self.mix(part)) for part in steps.split(STEPS)]
        return self.head(torch.cat(mixed).sum(0))


@pytest.mark.parametrize("engine", ENGINES)
def test_calls_that_were_not_there_before_are_read_as_the_others(engine):
    torch.manual_seed(0)
    net = Chunks().double()
    _, optimizer = attached(
        net, engine=engine, clipping_fn="Abadi", max_grad_norm=0.05,
        loss_reduction="sum", learning_rate=0.0, batch_size=1,
    )  # fmt: skip
    for steps in (STEPS, 2 * STEPS):
        ids, labels = drawn(STEPS, steps)
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(ids), labels, reduction="sum").backward()
        optimizer.step()
        actual = {n: p.grad.clone() for n, p in net.named_parameters()}
        expected = loop(Chunks().double(), plain(ids), labels, of=net)
        exact(actual, clipped(expected, 0.05))


def test_rows_are_told_by_the_place_in_the_call():
    net = Masked().double()
    rows = InputRows(net)
    ids, _ = drawn(STEPS)
    lengths = torch.full((STEPS,), 2)
    mask = causal()
    assert rows.of(((ids, mask), {"lengths": lengths}), STEPS) == [True, False, True]
    # a place that was not there before is learnt when it comes
    assert rows.of(((ids, mask, torch.arange(STEPS)), {}), STEPS) == [
        True, False, False,
    ]  # fmt: skip
    assert rows.of(((ids[:1], mask[:1]), {}), 1) == [True, False]


def test_learning_leaves_nothing_behind():
    class Noisy(Masked):
        def __init__(self):
            super().__init__()
            self.register_buffer("calls", torch.zeros(()))

        def forward(self, ids, mask, **kwargs):
            self.calls += 1
            return super().forward(ids, mask, **kwargs) + torch.rand(())

    net, (ids, _) = Noisy().double().train(), drawn(STEPS)
    before = torch.random.get_rng_state()
    InputRows(net).of(((ids, causal()), {}), STEPS)
    assert net.calls == 0
    assert net.training
    assert torch.equal(torch.random.get_rng_state(), before)
