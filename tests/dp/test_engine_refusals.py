"""What would break the guarantee in a training loop raises, and says what to do."""

import copy
from contextlib import nullcontext

import pytest
import torch
import torch.nn.functional as F
from torch import nn, optim

from dpsgd_explorer.dp import PrivacyEngine
from dpsgd_explorer.dp.config import CHOICES
from dpsgd_explorer.errors import ExplorerError, PrivacyError, PrivacyWarning
from tests.dp.nets import POISSON, attached, backward, case, data, linear, step, train

ENGINE = pytest.mark.parametrize("engine", CHOICES["engine"])


def test_step_without_backward_is_refused():
    net, x, y = case("mlp")
    _, optimizer = attached(net)
    net(x)
    with pytest.raises(PrivacyError, match="must follow a backward"):
        optimizer.step()
    train(net, optimizer, [(x, y)])
    with pytest.raises(PrivacyError, match="must follow a backward"):
        optimizer.step()


@ENGINE
def test_backward_without_zero_grad_is_refused(engine):
    net, x, y = case("mlp")
    _, optimizer = attached(net, engine=engine)
    step(net, optimizer, x, y)
    with pytest.raises(PrivacyError, match="zero_grad"):
        backward(net, x, y)


@ENGINE
def test_the_same_forward_counts_once(engine):
    net, x, y = case("mlp")
    attached(net, engine=engine)
    loss = F.cross_entropy(net(x), y)
    loss.backward(retain_graph=True)
    with pytest.raises(PrivacyError, match="backward ran twice"):
        loss.backward()


@ENGINE
def test_an_older_forward_is_refused(engine):
    net, x, y = case("mlp")
    attached(net, engine=engine)
    loss = F.cross_entropy(net(x), y)
    net(x)
    with pytest.raises(PrivacyError, match="too late"):
        loss.backward()


def test_a_gradient_of_gradients_is_refused():
    net, x, y = case("mlp")
    attached(net)
    with pytest.raises(PrivacyError, match="create_graph"):
        F.cross_entropy(net(x), y).backward(create_graph=True)


OUTSIDE = {
    "penalty": lambda net, x: net[0].weight.square().sum(),
    "layer alone": lambda net, x: net[0](x).sum(),
}


@pytest.mark.parametrize("extra", OUTSIDE.values(), ids=OUTSIDE)
def test_gradients_from_elsewhere_are_refused(extra):
    net, x, y = case("mlp")
    _, optimizer = attached(net)
    (F.cross_entropy(net(x), y) + extra(net, x)).backward()
    with pytest.raises(PrivacyError, match="did not go through the engine"):
        optimizer.step()


def test_gradients_from_elsewhere_are_refused_after_an_empty_batch():
    net = linear()
    engine, optimizer = attached(net, sampling="poisson")
    engine._state.note_draw(0, 0, True, 0)
    for parameter in net.parameters():
        parameter.grad = torch.ones_like(parameter)
    with pytest.raises(PrivacyError, match="did not go through the engine"):
        optimizer.step()


def test_an_input_changed_in_place_is_refused():
    class InPlace(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.two = nn.Linear(4, 4), nn.Linear(4, 3)

        def forward(self, x):
            hidden = self.one(x) * 1.0
            out = self.two(hidden)
            hidden.add_(1.0)
            return out

    net = InPlace()
    attached(net)
    with pytest.raises(PrivacyError, match="two was changed in place"):
        net(torch.randn(3, 4))


def test_batches_from_elsewhere_are_refused():
    net = linear()
    _, optimizer = attached(net, sampling="poisson")
    with pytest.raises(PrivacyError, match="poisson_loader"):
        step(net, optimizer, *data(5))


def loop_of(net):
    engine, optimizer = attached(net, **POISSON)
    return engine, optimizer, engine.poisson_loader(data()).all_epochs()


def test_a_part_lost_to_zero_grad_is_refused():
    net = linear()
    _, optimizer, batches = loop_of(net)
    x, y = next(batches)
    backward(net, x[:2], y[:2])
    optimizer.zero_grad()
    with pytest.raises(PrivacyError, match="samples went through backward"):
        step(net, optimizer, x[2:], y[2:])


def test_a_skipped_batch_is_refused():
    net = linear()
    _, _, batches = loop_of(net)
    next(batches)
    with pytest.raises(PrivacyError, match="no step followed"):
        next(batches)


def test_a_batch_drawn_before_attaching_is_refused():
    engine = PrivacyEngine(linear(), **POISSON, steps=3)
    with pytest.raises(PrivacyError, match="no optimizer is attached"):
        next(engine.poisson_loader(data()).all_epochs())


def test_other_trainable_parameters_than_attached_are_refused():
    net, x, _ = case("mlp")
    attached(net)
    net[0].weight.requires_grad_(False)
    with pytest.raises(PrivacyError, match="stay the same"):
        net(x)


def test_an_optimizer_of_other_parameters_is_refused():
    net, stranger = linear(), linear()
    engine = PrivacyEngine(net, **POISSON, steps=3)
    with pytest.raises(PrivacyError, match="trains 2 parameters that are not"):
        engine.attach(optim.SGD([*net.parameters(), *stranger.parameters()], lr=0.1))
    with pytest.raises(PrivacyError, match="does not train bias"):
        engine.attach(optim.SGD([net.weight], lr=0.1))


def split_optimizer(net, **options):
    """Return an attached optimizer of all parameters, frozen ones among them."""
    optimizer = optim.SGD(net.parameters(), lr=0.1, momentum=0.9, weight_decay=0.1)
    return attached(net, optimizer, noise_multiplier=1.0, **options)[1]


@ENGINE
def test_frozen_parameters_in_the_optimizer_stay_where_they_are(engine):
    """Bias-only training in one line: momentum and weight decay move nothing else."""
    net, x, y = case("bias only")
    before = copy.deepcopy(net.state_dict())
    optimizer = split_optimizer(net, engine=engine)
    for _ in range(3):
        optimizer.zero_grad()
        step(net, optimizer, x, y)
    moved = [n for n, p in net.state_dict().items() if not torch.equal(p, before[n])]
    assert moved == ["0.bias", "2.bias"]


@ENGINE
def test_a_frozen_parameter_that_the_optimizer_would_move_is_refused(engine):
    net, x, y = case("bias only")
    optimizer = split_optimizer(net, engine=engine)
    net[0].weight.grad = torch.zeros_like(net[0].weight)
    before = net[0].weight.clone()
    with pytest.raises(
        PrivacyError, match=r"would change 0\.weight without noise: it is frozen"
    ):
        step(net, optimizer, x, y)
    assert torch.equal(net[0].weight, before)
    second, _, _ = case("bias only")
    second[2].weight.grad = torch.zeros_like(second[2].weight)
    with pytest.raises(
        PrivacyError, match=r"would change 2\.weight without noise: it is frozen"
    ):
        split_optimizer(second, engine=engine)


@ENGINE
def test_parameters_added_to_the_optimizer_later_are_refused(engine):
    net, x, y = case("mlp")
    _, optimizer = attached(net, engine=engine)
    step(net, optimizer, x, y)
    optimizer.zero_grad()
    head = nn.Linear(3, 3).double()
    before = copy.deepcopy(head.state_dict())
    optimizer.add_param_group({"params": head.parameters()})
    with pytest.raises(PrivacyError, match="trains 2 parameters that are not"):
        step(lambda x: head(net(x)), optimizer, x, y)
    torch.testing.assert_close(head.state_dict(), before, rtol=0, atol=0)


def test_a_parameter_swapped_within_a_group_is_refused():
    net, x, y = case("mlp")
    _, optimizer = attached(net)
    optimizer.param_groups[0]["params"][0] = nn.Parameter(torch.ones(2))
    with pytest.raises(PrivacyError, match="trains 1 parameters that are not"):
        step(net, optimizer, x, y)


def test_the_same_parameters_may_be_grouped_anew():
    net, x, y = case("mlp")
    engine, optimizer = attached(net)
    first, *rest = optimizer.param_groups[0]["params"]
    optimizer.param_groups[0]["params"] = [first]
    optimizer.add_param_group({"params": rest, "lr": 0.5})
    step(net, optimizer, x, y)
    assert engine.steps_done == 1


def test_attaching_twice_is_refused():
    net = linear()
    engine, optimizer = attached(net)
    with pytest.raises(PrivacyError, match="already attached"):
        engine.attach(optimizer)


def test_a_second_engine_on_the_same_module_is_refused():
    net = linear()
    _, optimizer = attached(net)
    other = PrivacyEngine(net, **POISSON, steps=3)
    with pytest.raises(PrivacyError, match="another engine"):
        other.attach(optimizer)


@ENGINE
def test_detaching_leaves_no_trace(engine):
    net, x, y = case("mlp")
    plain = copy.deepcopy(net)
    own, optimizer = attached(net, engine=engine)
    step(net, optimizer, x, y)
    own.detach()
    optimizer.zero_grad()
    plain.load_state_dict(net.state_dict())
    assert "zero_grad" not in vars(optimizer)
    assert "forward" not in vars(net)
    assert all(not vars(p) for p in net.parameters())
    backward(net, x, y)
    backward(plain, x, y)
    for own_p, other in zip(net.parameters(), plain.parameters(), strict=True):
        assert torch.equal(own_p.grad, other.grad)
    optimizer.step()  # a plain one, of which the engine warns if it can see it
    seen = nullcontext() if engine == "extending" else pytest.warns(PrivacyWarning)
    with seen:
        own.attach(optimizer)  # and it may come back
    optimizer.zero_grad()
    step(net, optimizer, x, y)
    assert own.steps_done == 2


@ENGINE
def test_gradients_in_evaluation_mode_are_refused(engine):
    net, x, y = case("mlp")
    attached(net, engine=engine)
    net.eval()
    with pytest.raises(PrivacyError, match="evaluation mode"):
        backward(net, x, y)


@ENGINE
def test_more_steps_than_planned_are_refused(engine):
    net, x, y = case("mlp")
    one_step = {"steps": 1, "noise_multiplier": None, "target_epsilon": 3.0}
    own, optimizer = attached(net, engine=engine, **one_step)
    train(net, optimizer, [(x, y)])
    with pytest.raises(PrivacyError, match="all 1 planned steps are done"):
        step(net, optimizer, x, y)
    assert all(p.grad is None for p in net.parameters())
    assert own.steps_done == 1


@pytest.mark.parametrize("sign", [-1, 1])
def test_more_or_fewer_samples_than_drawn_are_refused(sign):
    net = linear()
    _, optimizer, batches = loop_of(net)
    x, y = next(batches)
    rows = torch.cat([x, x])[: len(x) + sign]
    with pytest.raises(PrivacyError, match=rf"{len(rows)} samples.*{len(x)} drawn"):
        step(net, optimizer, rows, torch.cat([y, y])[: len(rows)])


def marks(net, optimizer):
    """Return what attaching could leave behind."""
    kept = [(name, value) for m in net.modules() for name, value in vars(m).items()]
    hooks = [len(value or ()) for name, value in kept if name.endswith("_hooks")]
    own = [name for name, _ in kept if name == "forward"]
    flags = [(p.requires_grad, p.grad, sorted(vars(p))) for p in net.parameters()]
    return hooks, own, flags, sorted(vars(optimizer)), net.training


BAD_ATTACH = {
    "stranger": lambda net: ({}, [*net.parameters(), nn.Parameter(torch.ones(1))]),
    "left out": lambda net: ({}, list(net.parameters())[:1]),
    "batch-mean loss": lambda net: (
        {
            "example_inputs": (torch.randn(5, 4).double(), torch.zeros(5).long()),
            "loss_fn": lambda out, y: out.mean(0).square().sum(),
        },
        list(net.parameters()),
    ),
}


@ENGINE
@pytest.mark.parametrize("bad", BAD_ATTACH.values(), ids=BAD_ATTACH)
def test_after_a_refusal_nothing_is_half_attached(bad, engine):
    net, x, y = case("mlp")
    options, trained = bad(net)
    optimizer = torch.optim.SGD(trained, lr=0.1)
    before = marks(net, optimizer)
    with pytest.raises(ExplorerError):
        attached(net, optimizer, engine=engine, noise_multiplier=1.0, **options)
    assert marks(net, optimizer) == before
    _, good = attached(net, engine=engine)
    backward(net, x, y)
    good.step()


def test_unknown_arguments_are_not_swallowed():
    with pytest.raises(TypeError, match="max_grad_nrom"):
        attached(linear(), max_grad_nrom=0.1)
