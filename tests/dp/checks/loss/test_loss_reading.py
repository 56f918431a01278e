"""The loss is read at each backward, by every way that begins one."""

import copy
import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.autograd import Variable

from dpsgd_explorer.dp import PrivacyEngine, per_sample_mean
from dpsgd_explorer.dp.checks.loss.watch import LossWatch
from dpsgd_explorer.dp.config import CHOICES
from dpsgd_explorer.errors import ConfigError, MixedLossError, PrivacyError
from tests.dp.loss_cases import CLASSES, Tokens, token_classes
from tests.dp.nets import POISSON, UNREAD, attached, data, linear, train

pytestmark = UNREAD
ENGINE = pytest.mark.parametrize("engine", CHOICES["engine"])
PRIVATE = POISSON | {"batch_size": 10, "steps": 8}
SECURE = {**PRIVATE, "noise": "secure", "seed": None}


def steps_of(engine, optimizer, loss, count, **loader):
    """Make so many private steps with a loss of (outputs, targets)."""
    batches = engine.poisson_loader(data(), **loader).all_epochs()
    for _ in range(count):
        x, y = next(batches)
        loss(engine.module(x), y).backward()
        optimizer.step()
        optimizer.zero_grad()


def private(loss, count=3, **options):
    engine, optimizer = attached(linear(), **PRIVATE, **options)
    steps_of(engine, optimizer, loss, count)
    return engine


def plus_squares(factor):
    return lambda out, y: F.cross_entropy(out, y) + factor * out.pow(2).mean()


@ENGINE
def test_a_later_batch_with_ignored_targets_releases_nothing(engine):
    torch.manual_seed(0)
    net = Tokens()
    _, optimizer = attached(net, engine=engine)
    x, y = torch.randn(4, 4), token_classes(4)
    F.cross_entropy(net(x).transpose(1, 2), y).backward()
    optimizer.step()
    optimizer.zero_grad()
    before = copy.deepcopy(net.state_dict())
    y[0, 1:] = -100
    outputs = net(x).transpose(1, 2)
    with pytest.raises(MixedLossError, match=r"10 for 12 targets.*ignore_index"):
        F.cross_entropy(outputs, y).backward()
    assert all(p.grad is None for p in net.parameters())
    torch.testing.assert_close(net.state_dict(), before, rtol=0, atol=0)


def test_as_many_ignored_targets_in_each_sample_are_a_mean_over_samples():
    net = Tokens()
    engine, optimizer = attached(net, noise_multiplier=1.0)
    y = token_classes(4)
    y[:, -1] = -100
    F.cross_entropy(net(torch.randn(4, 4)).transpose(1, 2), y).backward()
    optimizer.step()
    assert engine.get_epsilon(assume_poisson=True) < math.inf


def test_torch_is_left_as_it_was():
    own, watch = Variable._execution_engine, LossWatch()
    watch.begin()
    watch.begin()
    watch.end()
    assert Variable._execution_engine is not own
    watch.end()
    assert Variable._execution_engine is own


def test_the_watch_ends_with_the_last_engine(monkeypatch):
    watch = LossWatch()
    monkeypatch.setattr("dpsgd_explorer.dp.session.WATCH", watch)
    own = Variable._execution_engine
    engines = [attached(linear())[0] for _ in range(2)]
    for engine in engines:
        assert Variable._execution_engine is not own
        engine.detach()
    assert Variable._execution_engine is own


def test_a_loss_that_is_no_business_of_the_engine_is_left_alone():
    attached(linear())
    other, weights = nn.Linear(4, 3), torch.tensor([1.0, 2.0, 3.0])
    F.cross_entropy(other(torch.randn(3, 4)), torch.arange(3), weights).backward()
    assert other.weight.grad is not None


BACKWARDS = {
    "tensor": lambda loss: loss.backward(),
    "function": lambda loss: torch.autograd.backward(loss),
    "edge": lambda loss: torch.autograd.backward(
        torch.autograd.graph.get_gradient_edge(loss)
    ),
    "with a gradient of 1": lambda loss: loss.backward(torch.ones(())),
    "two losses": lambda loss: torch.autograd.backward([loss, 0.5 * loss]),
}


@pytest.mark.parametrize("way", BACKWARDS)
def test_every_backward_is_seen(way):
    if way == "edge" and not hasattr(torch.autograd.graph, "get_gradient_edge"):
        raise AssertionError("torch has no edges any more; take them out of the watch")
    engine, optimizer = attached(linear(), **PRIVATE)
    for x, y in engine.poisson_loader(data()).all_epochs():
        BACKWARDS[way](F.cross_entropy(engine.module(x), y))
        optimizer.step()
        optimizer.zero_grad()
    assert engine.get_epsilon() > 0


def test_a_backward_that_torch_begins_otherwise_leaves_the_loss_unchecked(monkeypatch):
    engine, optimizer = attached(linear(), **PRIVATE)
    (x, y) = next(engine.poisson_loader(data()).all_epochs())
    loss = F.cross_entropy(engine.module(x), y)
    torch._C._ImperativeEngine().run_backward(
        (loss,), (torch.ones(()),), False, False, (), True, accumulate_grad=True
    )
    optimizer.step()
    with pytest.raises(PrivacyError, match="did not see its graph"):
        engine.get_epsilon()


@pytest.mark.parametrize("gradient", [2.0, -1.0])
def test_another_gradient_than_1_leaves_the_loss_unchecked(gradient):
    engine, optimizer = attached(linear(), **PRIVATE)
    (x, y) = next(engine.poisson_loader(data()).all_epochs())
    F.cross_entropy(engine.module(x), y).backward(torch.tensor(gradient))
    optimizer.step()
    with pytest.raises(PrivacyError, match="called with a gradient"):
        engine.get_epsilon()


def test_a_weight_is_public_once_two_sizes_of_batches_agree_on_it():
    once = private(plus_squares(0.1), count=1)
    with pytest.raises(PrivacyError, match="no two batches of different sizes"):
        once.get_epsilon()
    assert private(plus_squares(0.1)).get_epsilon() > 0


def test_a_limit_made_of_one_batch_is_not_public():
    def limited(out, y):
        losses = F.cross_entropy(out, y, reduction="none")
        return losses.clamp(max=losses.detach().median().item()).mean()

    with pytest.raises(PrivacyError, match="no two batches of different sizes"):
        private(limited, count=1).get_epsilon()
    with pytest.raises(PrivacyError, match="changes from batch to batch"):
        private(limited).get_epsilon()


def test_a_weight_that_changes_is_not_public():
    weights = iter([0.1, 0.1, 0.2])
    engine = private(lambda out, y: plus_squares(next(weights))(out, y))
    with pytest.raises(PrivacyError, match="changes from batch to batch"):
        engine.get_epsilon()


def test_one_unread_loss_is_enough():
    losses = iter([F.cross_entropy, lambda out, y: out.var(0).sum(), F.cross_entropy])
    engine = private(lambda out, y: next(losses)(out, y))
    with pytest.raises(
        PrivacyError, match="Var is not known to keep samples independent"
    ):
        engine.get_epsilon()


def test_what_the_module_holds_back_does_not_pass():
    class Hiding(nn.Module):
        """Keeps a loss of the batch beside its outputs."""

        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 3)

        def forward(self, x):
            out = self.layer(x)
            self.balance = out.softmax(1).mean(0).square().sum()
            return 2 * out

    net = Hiding()
    engine, optimizer = attached(net, noise_multiplier=1.0)
    loss = F.cross_entropy(net(torch.randn(4, 4)), torch.zeros(4).long())
    (loss + net.balance).backward()
    optimizer.step()
    with pytest.raises(PrivacyError, match="per_sample_mean"):
        engine.get_epsilon(assume_poisson=True)


@pytest.mark.parametrize("part", [1, 3, 100])
def test_parts_of_batches_are_read_like_batches(part):
    engine, optimizer = attached(linear(), physical_batch_size=part, **PRIVATE)
    train(engine.module, optimizer, engine.poisson_loader(data()).all_epochs())
    assert engine.get_epsilon() > 0


def test_views_of_a_sample_are_read_like_samples():
    engine, optimizer = attached(linear(), augmentation_multiplicity=2, **PRIVATE)
    for x, y in engine.poisson_loader(data()).all_epochs():
        twice = x.repeat_interleave(2, 0), y.repeat_interleave(2)
        F.cross_entropy(engine.module(twice[0]), twice[1]).backward()
        optimizer.step()
        optimizer.zero_grad()
    assert engine.get_epsilon() > 0


def test_a_resumed_run_remembers_its_losses():
    first = private(lambda out, y: out.var(0).sum())
    second, _ = attached(linear(), **PRIVATE)
    second.load_state_dict(first.state_dict())
    with pytest.raises(PrivacyError, match="Var"):
        second.get_epsilon()


def test_an_older_state_does_not_make_a_loss_forgotten():
    engine, optimizer = attached(linear(), **SECURE)
    state = engine.state_dict()
    steps_of(engine, optimizer, lambda out, y: out.var(0).sum(), 1)
    engine.load_state_dict(state)
    with pytest.raises(PrivacyError, match="Var"):
        engine.get_epsilon()


def test_a_resumed_run_remembers_its_weights():
    first = private(plus_squares(0.1))
    for factor, allowed in ((0.1, True), (0.2, False)):
        engine, optimizer = attached(linear(), **PRIVATE)
        engine.load_state_dict(first.state_dict())
        steps_of(engine, optimizer, plus_squares(factor), 1)
        assert (not engine._state.ledger.losses.rejection) == allowed


def test_a_phase_before_must_have_been_checked_too():
    first = private(lambda out, y: out.var(0).sum())
    first.detach()
    second, optimizer = attached(first.module, after=first, **PRIVATE)
    steps_of(second, optimizer, F.cross_entropy, 2)
    with pytest.raises(PrivacyError, match="Var"):
        second.get_epsilon()
    first.get_epsilon(assume_per_sample_loss=True)
    assert second.get_epsilon() > first.get_epsilon()


def test_scaled_losses_are_read_too():
    scaler = torch.amp.GradScaler("cpu", init_scale=64.0, growth_interval=1)
    engine, optimizer = attached(
        linear(),
        engine="extending",
        grad_scaler=scaler,
        **PRIVATE,
    )
    for x, y in engine.poisson_loader(data()).all_epochs():
        scaler.scale(F.cross_entropy(engine.module(x), y)).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
    assert scaler.get_scale() > 64
    assert engine.get_epsilon() > 0


def test_nothing_is_said_of_the_loss_where_nothing_rests_on_it():
    without_noise, optimizer = attached(linear())
    without_noise.module(torch.randn(4, 4)).var(0).sum().backward()
    optimizer.step()
    assert without_noise.get_epsilon(assume_poisson=True) == math.inf
    fresh = PrivacyEngine(linear(), **PRIVATE)
    assert fresh.get_epsilon() == 0


class OwnLoss(nn.Module):
    """Returns its loss, as the models of transformers do when given labels."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, CLASSES)

    def forward(self, x, labels):
        return F.cross_entropy(self.layer(x).view(-1, CLASSES), labels.view(-1))


@pytest.mark.parametrize("engine", ["hooks", "extending"])
def test_a_loss_inside_the_module_is_read(engine):
    net = OwnLoss()
    engine, optimizer = attached(net, engine=engine, noise_multiplier=1.0)
    labels = token_classes(4)
    net(torch.randn(4, 3, 4), labels).backward()
    optimizer.step()
    optimizer.zero_grad()
    assert engine.get_epsilon(assume_poisson=True) > 0
    labels[1, 1:] = -100
    loss = net(torch.randn(4, 3, 4), labels)
    with pytest.raises(MixedLossError, match="10 for 12 targets"):
        loss.backward()


def test_per_sample_mean_is_its_formula():
    torch.manual_seed(0)
    losses = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    mask = torch.tensor([[1, 1, 1], [1, 0, 0], [0, 0, 0], [0, 1, 1]]).bool()
    own = [losses[0].mean(), losses[1, 0], losses[3, 1:].mean()]
    expected = torch.stack(own).sum() / 4
    torch.testing.assert_close(per_sample_mean(losses, mask), expected)
    torch.testing.assert_close(per_sample_mean(losses), losses.mean())
    torch.testing.assert_close(per_sample_mean(losses[:, 0]), losses[:, 0].mean())


def test_what_per_sample_mean_leaves_out_may_be_infinite():
    losses = torch.tensor([[1.0, math.inf], [3.0, math.nan]], requires_grad=True)
    loss = per_sample_mean(losses, torch.tensor([[True, False], [True, False]]))
    loss.backward()
    assert loss.item() == 2.0
    assert losses.grad.tolist() == [[0.5, 0.0], [0.5, 0.0]]


@pytest.mark.parametrize("shape", [(0,), (0, 3)])
def test_nobody_has_no_loss(shape):
    losses = torch.zeros(shape, requires_grad=True)
    assert per_sample_mean(losses).item() == 0.0
    assert per_sample_mean(losses).requires_grad


def test_per_sample_mean_refuses_what_has_no_samples():
    with pytest.raises(ConfigError, match='reduction="none"'):
        per_sample_mean(torch.ones(()))
    with pytest.raises(ConfigError, match="mask must have the shape"):
        per_sample_mean(torch.ones(3, 2), torch.ones(3))
