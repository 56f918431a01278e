"""A reading is found again only for a graph on which it does not depend otherwise."""

import random
import sys

import pytest
import torch
import torch.nn.functional as F

from dpsgd_explorer.dp.checks.loss import graph
from dpsgd_explorer.dp.checks.loss.graph import KnownReadings, read
from dpsgd_explorer.dp.checks.loss.marks import ModulePass, mark_outputs
from dpsgd_explorer.errors import MixedLossError, PrivacyError
from tests.dp.loss_cases import CLASSES, ORDINARY, PLANTED, trained
from tests.dp.nets import POISSON, UNREAD, attached, linear
from tests.dp.random_losses import UNFIT, Rows, random_loss, random_sizes

STEPS = 100
SEEDS = 300


@pytest.fixture
def known(monkeypatch):
    """The readings of one test, empty at first."""
    known = KnownReadings()
    monkeypatch.setattr(graph, "KNOWN_READINGS", known)
    return known


def outputs_of(size, classes=CLASSES, loss_reduction="mean"):
    """Return marked outputs of a module; the engine remains attached to it."""
    net = linear() if classes == 3 else torch.nn.Linear(4, classes)
    engine, _ = attached(net, loss_reduction=loss_reduction)
    return engine.module(torch.randn(size, 4))


def reading_of(loss):
    return read([(loss.grad_fn, loss.output_nr)])[0]


def test_a_steady_loss_is_read_once(known):
    readings = [
        reading_of(F.cross_entropy(outputs_of(6), torch.randint(0, CLASSES, (6,))))
        for _ in range(3)
    ]
    assert readings[0] is readings[1] is readings[2]
    assert not readings[0].rejection


def calls_in(function):
    """Return the result of a function, and the number of Python calls that it made."""
    events = []
    sys.setprofile(lambda frame, event, _: events.append(event))
    try:
        result = function()
    finally:
        sys.setprofile(None)
    return result, events.count("call")


def test_a_steady_loss_costs_half_of_the_calls(known):
    losses = [F.cross_entropy(outputs_of(6), torch.arange(6) % 3) for _ in range(3)]
    (first, once), *_, (last, again) = [
        calls_in(lambda loss=loss: reading_of(loss)) for loss in losses
    ]
    assert first is last
    assert again < once / 2


@pytest.mark.parametrize("mixing", ["ignored targets", "a new loss", "class weights"])
@UNREAD
def test_a_mean_that_is_weighted_in_the_last_of_many_steps_is_rejected(mixing, known):
    engine, optimizer = attached(linear(), **POISSON, steps=STEPS)
    generator = torch.Generator().manual_seed(0)
    weights = torch.tensor([1.0, 1.0, 5.0])

    def last_loss(outputs, y):
        if mixing == "ignored targets":
            return F.cross_entropy(outputs, y.index_fill(0, torch.tensor([0]), -100))
        if mixing == "class weights":
            return F.cross_entropy(outputs, y, weights)
        return outputs.var(0).sum()

    data = torch.randn(40, 4, generator=generator), torch.arange(40) % 3
    for step, (x, y) in enumerate(engine.poisson_loader(data).all_epochs(), 1):
        if step < STEPS:
            F.cross_entropy(engine.module(x), y).backward()
            optimizer.step()
            optimizer.zero_grad()
        else:
            loss = last_loss(engine.module(x), y)

    def last_step():
        loss.backward()
        optimizer.step()
        engine.get_epsilon()

    with pytest.raises(PrivacyError, match="per_sample_mean") as error:
        last_step()
    assert isinstance(error.value, MixedLossError) == (mixing != "a new loss")


DIFFERENT = {
    "another dimension": (
        lambda out: out.log_softmax(1).mean(),
        lambda out: out.log_softmax(0).mean(),
    ),
    "another reduction": (
        lambda out: F.mse_loss(out, torch.ones(6, 6)),
        lambda out: F.mse_loss(out, torch.ones(6, 6), reduction="sum"),
    ),
    "another shape": (
        lambda out: out.view(6, 6).mean(1).mean(),
        lambda out: out.t().reshape(6, 6).mean(1).pow(2).sum(),
    ),
    "one tensor for two": (
        lambda out: (out.tanh() + out.tanh()).mean(),
        lambda out: (out + out.roll(1, 0)).mean(),
    ),
    "a divisor": (
        lambda out: out.sum() / 6,
        lambda out: out.sum() / 7,
    ),
    "a filled mask": (
        lambda out: out.tanh().masked_fill(torch.zeros(6, 6).bool(), 0).mean(),
        lambda out: out.tanh().masked_fill(torch.eye(6).bool(), 0).mean(),
    ),
    "a distribution": (
        lambda out: -(out.log_softmax(1) * torch.full((6, 6), 1 / 6)).mean(),
        lambda out: -(out.log_softmax(1) * torch.rand(6, 6)).mean(),
    ),
}


@pytest.mark.parametrize("name", DIFFERENT)
def test_a_graph_that_differs_in_one_thing_has_its_own_reading(name, known):
    accepted, refused = DIFFERENT[name]
    assert not reading_of(accepted(outputs_of(6, 6))).rejection
    assert reading_of(refused(outputs_of(6, 6))).rejection
    assert not reading_of(accepted(outputs_of(6, 6))).rejection


def test_the_reduction_of_the_engine_belongs_to_the_reading(known):
    assert not reading_of(outputs_of(6).mean()).rejection
    assert "is a mean" in reading_of(outputs_of(6, 3, "sum").mean()).rejection


def random_reading(seed):
    """Return the reading of a random loss; None if its operations do not fit."""
    draw = random.Random(seed)
    torch.manual_seed(seed)
    records, tokens, classes = random_sizes(draw)
    outputs = Rows(tokens, classes)(torch.randn(records, 3))
    mark_outputs(outputs, ModulePass(records, "mean", lambda: 1.0))
    try:
        loss, _ = random_loss(draw, outputs)
        return reading_of(loss(outputs))
    except (*UNFIT, MixedLossError):
        return None


@pytest.mark.filterwarnings("ignore::UserWarning")  # torch's, of odd shapes
def test_earlier_readings_change_no_reading(known, monkeypatch):
    first = [random_reading(seed) for seed in range(SEEDS)]
    again = [random_reading(seed) for seed in range(SEEDS)]
    assert any(one is other for one, other in zip(first, again, strict=True) if one)
    alone = []
    for seed in range(SEEDS):
        monkeypatch.setattr(graph, "KNOWN_READINGS", KnownReadings())
        alone.append(random_reading(seed))
    assert first == again == alone
    assert sum(reading is not None and not reading.rejection for reading in alone) > 30


def test_the_number_of_stored_readings_is_limited(known, monkeypatch):
    monkeypatch.setattr(graph, "MAX_READINGS", 4)
    for size in range(2, 12):
        assert not reading_of(outputs_of(size).mean()).rejection
        assert known.count <= 4


@UNREAD
@pytest.mark.parametrize("name", ["class weights", "trimmed at the batch's median"])
def test_a_mixing_loss_after_an_ordinary_one_is_rejected(name, known):
    trained(*ORDINARY["cross entropy"])
    with pytest.raises(PrivacyError, match="per_sample_mean"):
        trained(*PLANTED[name]).get_epsilon()
