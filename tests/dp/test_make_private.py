"""``make_private``: a run whose sizes come from the data set."""

import dataclasses
import inspect
import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn, optim
from torch.utils.data import TensorDataset

from dpsgd_explorer import dp
from dpsgd_explorer.errors import ConfigError, PrivacyError, UnsupportedModuleError

RECORDS = 60
SEEDED = dp.Noise(kind="seeded", seed=3)
SIZES = {"batch_size": 10, "epochs": 2, "noise_multiplier": 1.0}
#: Arguments of PrivacyEngine that make_private does not take, and its way to them.
ELSEWHERE = {
    "module": "model",
    "named_params": "FastDP's",
    "origin_params": "FastDP's",
    "sampling": "always Poisson",
    "example_inputs": "from the data set",
    "plan": "the arguments hold it",
}


def data(records=RECORDS):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(records, 4, generator=generator)
    return x, (x.sum(1) > 0).long()


def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))


def private(model, dataset=None, **options):
    optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    dataset = data() if dataset is None else dataset
    return dp.make_private(model, optimizer, dataset, **SIZES | options), optimizer


def train(model, optimizer, batches):
    for x, y in batches:
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
        optimizer.zero_grad()


def weights(model):
    return torch.cat([p.detach().flatten() for p in model.parameters()])


def test_a_loop_over_epochs_trains_as_one_of_an_engine_does():
    model, other = net(), net()
    run, optimizer = private(model, noise=SEEDED)
    lengths = []
    for epoch in run.epochs():
        lengths.append(len(epoch))
        train(model, optimizer, epoch)
    engine = dp.PrivacyEngine(
        other, sample_size=RECORDS, noise="seeded", seed=3, **SIZES
    )
    flat = optim.SGD(other.parameters(), lr=0.1, momentum=0.9)
    engine.attach(flat)
    train(other, flat, engine.poisson_loader(data()).all_epochs())
    assert lengths == [6, 6]
    assert torch.equal(weights(model), weights(other))
    assert run.epsilon() == engine.get_epsilon()
    assert run.receipt()["epsilon"] == engine.receipt()["epsilon"]


def test_sizes_steps_and_delta_come_from_the_data_set():
    run, _ = private(net(), noise_multiplier=None, target_epsilon=2.0)
    plan = run.plan
    assert (plan.sample_size, plan.steps, plan.delta) == (60, 12, 1 / 120)
    assert plan.epsilon() <= 2.0
    run, _ = private(net(), TensorDataset(*data(30)), epochs=None, steps=7)
    assert (run.plan.sample_size, run.plan.steps) == (30, 7)


def test_every_option_reaches_the_engine():
    clipping = dp.Clipping(
        max_grad_norm=0.5,
        fn="global",
        style="layer-wise",
        threshold=0.7,
        schedule=dp.schedules.Linear(0.5),
    )
    noise = dp.Noise(kind="seeded", seed=5, schedule=dp.schedules.Linear(2.0))
    execution = dp.Execution(
        engine="vmap", clipping_mode="MixOpt", physical_batch_size=4
    )
    audit = dp.Audit(canaries=20, relation="replace_one")
    run, _ = private(
        net(),
        clipping=clipping,
        noise=noise,
        execution=execution,
        audit=audit,
        target_delta=1e-3,
        accounting_mode="rdp",
        loss_reduction="sum",
        augmentation_multiplicity=2,
    )
    options = dataclasses.asdict(run.engine.options)
    assert options["max_grad_norm"] == 0.5
    assert (options["clipping_fn"], options["clipping_style"]) == (
        "global",
        "layer-wise",
    )
    assert options["clipping_threshold"] == 0.7
    assert (options["engine"], options["loss_reduction"]) == ("vmap", "sum")
    assert run.engine.options.clipping_schedule == clipping.schedule
    assert run.engine.options.noise_schedule == noise.schedule
    assert options["augmentation_multiplicity"] == 2
    assert run.engine.seed == 5
    assert (run.plan.delta, run.plan.accountant) == (1e-3, "rdp")
    assert len(next(iter(run.loader))[0]) <= 4  # whole batches have 10 on average
    assert run.receipt()["audit"]["canaries"] == 20


def test_no_argument_of_the_engine_was_forgotten():
    ours = set(inspect.signature(dp.make_private).parameters)
    for group in (dp.Clipping, dp.Noise, dp.Execution, dp.Audit):
        ours |= {field.name for field in dataclasses.fields(group)}
    renamed = {
        "clipping_fn": "fn",
        "clipping_style": "style",
        "clipping_threshold": "threshold",
        "clipping_schedule": "schedule",
        "noise_schedule": "schedule",
        "audit": "canaries",
        "audit_relation": "relation",
    }
    engine = set(inspect.signature(dp.PrivacyEngine).parameters)
    assert {renamed.get(name, name) for name in engine - set(ELSEWHERE)} <= ours


@pytest.mark.parametrize(
    ("group", "default"),
    [
        ("fn", "clipping_fn"),
        ("style", "clipping_style"),
        ("max_grad_norm", "max_grad_norm"),
        ("engine", "engine"),
        ("clipping_mode", "clipping_mode"),
        ("kind", "noise"),
        ("relation", "audit_relation"),
    ],
)
def test_defaults_are_those_of_the_engine(group, default):
    defaults = {
        field.name: field.default
        for kind in (dp.Clipping, dp.Noise, dp.Execution, dp.Audit)
        for field in dataclasses.fields(kind)
    }
    signature = inspect.signature(dp.PrivacyEngine).parameters
    assert defaults[group] == signature[default].default


def test_an_epoch_of_which_no_batch_is_drawn_is_no_endless_loop():
    run, _ = private(net())
    epochs = run.epochs()
    next(epochs)
    with pytest.raises(PrivacyError, match="no batch was drawn"):
        next(epochs)


def test_an_open_ended_run_has_epochs_without_end():
    model = net()
    run, optimizer = private(model, epochs=None)
    for number, epoch in enumerate(run.epochs(), 1):
        train(model, optimizer, epoch)
        if number == 3:
            break
    assert run.engine.steps_done == 18
    assert "18 steps" in repr(run)


def test_it_prints_what_was_spent():
    model = net()
    run, optimizer = private(model)
    assert repr(run) == (
        "Run(ε = 0.00 at δ = 0.0083, exact; 0 of 12 steps; secure noise; "
        "Poisson batches)"
    )
    train(model, optimizer, run.loader)
    assert "6 of 12 steps" in repr(run)
    assert 0 <= run.clipped_fraction <= 1


def test_a_run_whose_epsilon_is_refused_can_be_printed():
    model = net()
    run, optimizer = private(model)
    for x, y in run.loader:
        loss = F.cross_entropy(model(x), y) * (y.float().mean() + 1)
        with pytest.warns(UserWarning, match="the loss must be a mean or sum"):
            loss.backward()
        optimizer.step()
        break
    assert "ε unknown" in repr(run)
    with pytest.raises(PrivacyError):
        run.epsilon()


def test_a_loss_that_is_given_is_checked_before_the_first_step():
    def mixing(outputs, targets):
        return F.cross_entropy(outputs - outputs.mean(0), targets)

    model = net()
    with pytest.raises(UnsupportedModuleError):
        private(model, loss_fn=mixing)
    run, optimizer = private(model, loss_fn=F.cross_entropy)
    train(model, optimizer, run.loader)


def test_the_records_of_a_loss_are_pairs():
    with pytest.raises(ConfigError, match="a pair of inputs and targets"):
        private(net(), (data()[0],), loss_fn=F.cross_entropy)


def test_another_process_continues_where_this_one_was_saved():
    model, whole = net(), net()
    run, optimizer = private(whole, noise=SEEDED)
    train(whole, optimizer, run.loader.all_epochs())
    first, first_optimizer = private(model, noise=SEEDED)
    train(model, first_optimizer, first.loader)
    state = first.state_dict()
    resumed = net()
    second, second_optimizer = private(resumed, noise=SEEDED)
    second.load_state_dict(state)
    train(resumed, second_optimizer, second.loader)
    assert torch.equal(weights(resumed), weights(whole))
    assert second.epsilon() == run.epsilon()
    assert second.receipt() == run.receipt()
    with pytest.raises(ConfigError, match="1 optimizers, got 0"):
        second.load_state_dict(state | {"optimizers": []})


def test_a_second_phase_counts_the_first():
    model = net()
    run, optimizer = private(model)
    train(model, optimizer, run.loader.all_epochs())
    spent = run.epsilon()
    run.detach()
    second, optimizer = private(model, after=run)
    train(model, optimizer, second.loader.all_epochs())
    assert second.epsilon() > spent
    assert math.isfinite(second.epsilon())


def test_several_optimizers_share_the_steps():
    model = net()
    parts = [optim.SGD(layer.parameters(), lr=0.1) for layer in (model[0], model[2])]
    run = dp.make_private(model, parts, data(), **SIZES)
    for x, y in run.loader:
        F.cross_entropy(model(x), y).backward()
        for optimizer in parts:
            optimizer.step()
            optimizer.zero_grad()
    assert run.engine.steps_done == 6


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"clipping": 1.0}, r"clipping must be a dp.Clipping\(...\), got 1.0"),
        ({"noise": "secure"}, r"noise must be a dp.Noise\(...\), got 'secure'"),
        ({"batch_size": 100}, "batch_size must be from 1 to sample_size = 60"),
        ({"target_epsilon": 1.0}, "give exactly one of"),
        ({"after": "run"}, "after must be the engine of an earlier phase, got 'run'"),
        ({"target_delta": 0.5}, "target_delta must be above 0 and below 1/N"),
    ],
)
def test_arguments_at_fault_are_named(options, said):
    with pytest.raises(ConfigError, match=said):
        private(net(), **options)


@pytest.mark.parametrize(
    ("made", "field"),
    [
        (lambda: dp.Clipping(fn="abadi"), "clipping_fn"),
        (lambda: dp.Clipping(max_grad_norm=0.0), "max_grad_norm"),
        (lambda: dp.Clipping(threshold=1.0), "clipping_threshold"),
        (lambda: dp.Clipping(schedule=dp.AdaptiveClipping()), "clipping_schedule"),
        (lambda: dp.Noise(kind="normal"), "noise"),
        (lambda: dp.Execution(engine="opacus"), "engine"),
        (lambda: dp.Execution(physical_batch_size=0), "physical_batch_size"),
        (lambda: dp.Execution(partition="shared"), "partition"),
        (lambda: dp.Audit(relation="one"), "audit_relation"),
    ],
)
def test_a_group_of_options_that_exists_is_valid(made, field):
    with pytest.raises(ConfigError) as caught:
        made()
    assert caught.value.field == field


def test_the_optimizer_must_train_the_model():
    with pytest.raises(PrivacyError):
        dp.make_private(net(), optim.SGD(net().parameters(), 0.1), data(), **SIZES)
    with pytest.raises(ConfigError, match="optimizer"):
        dp.make_private(net(), None, data(), **SIZES)
    loader = torch.utils.data.DataLoader(TensorDataset(*data()))
    with pytest.raises(ConfigError, match=r"Pass loader\.dataset"):
        private(net(), loader)
