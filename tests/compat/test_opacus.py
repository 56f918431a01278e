"""Scripts for Opacus train when their import lines alone are changed."""

import copy
import re
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import (
    DataLoader,
    IterableDataset,
    TensorDataset,
    WeightedRandomSampler,
)

from dpsgd_explorer import accounting, dp
from dpsgd_explorer.compat import opacus
from dpsgd_explorer.errors import (
    ConfigError,
    PrivacyError,
    PrivacyWarning,
    UnsupportedModuleError,
)

SCRIPTS = Path(__file__).parent / "opacus_scripts"
OPACUS_IMPORT = re.compile(r"^from opacus[\w.]* import", re.MULTILINE)


def run_script(name):
    """Run a script with its import lines changed, and return its variables."""
    source = (SCRIPTS / f"{name}.py").read_text(encoding="utf-8")
    source, changed = OPACUS_IMPORT.subn(
        "from dpsgd_explorer.compat.opacus import", source
    )
    assert changed
    assert "import opacus" not in source
    variables = {"__name__": "script"}
    exec(compile(source, f"{name}.py", "exec"), variables)
    return variables


def epsilon(batch_size, records, steps, noise_multiplier, delta, accountant="exact"):
    return accounting.epsilon(
        sample_rate=batch_size / records,
        noise_multiplier=noise_multiplier,
        steps=steps,
        delta=delta,
        accountant=accountant,
    )


def pairs(records=100):
    return TensorDataset(torch.randn(records, 3), torch.randint(0, 2, (records,)))


def loader_of(dataset=None, **options):
    return DataLoader(dataset or pairs(), **{"batch_size": 20} | options)


def made_private(privacy_engine=None, dataset=None, **options):
    """Return (privacy engine, model, optimizer, loader)."""
    privacy_engine = privacy_engine or opacus.PrivacyEngine()
    model = nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    given = {
        "module": model,
        "optimizer": optimizer,
        "data_loader": loader_of(dataset),
        "noise_multiplier": 1.0,
        "max_grad_norm": 1.0,
    }
    *_, loader = privacy_engine.make_private(**given | options)
    return privacy_engine, model, optimizer, loader


def train(model, optimizer, loader):
    for x, y in loader:
        cross_entropy(model(x), y).backward()
        optimizer.step()
        optimizer.zero_grad()


def test_images_reach_their_target_in_parts(capsys):
    script = run_script("images")
    assert "GroupNorm" in capsys.readouterr().out
    assert script["errors"] == []
    assert script["epsilons"][0] < script["epsilons"][1] <= 8.0
    assert script["epsilons"][1] > 7.99
    engine = script["privacy_engine"].engine
    assert engine.steps_done == 20
    assert len(script["losses"]) > 20  # one per part
    state = script["model"].state_dict()
    assert any((state[name] != own).any() for name, own in script["initial"].items())
    with pytest.raises(PrivacyError, match="planned"):
        next(iter(script["train_loader"]))


def test_names_continue_from_their_checkpoint():
    script = run_script("names")
    expected = [epsilon(50, 300, steps, 1.0, 1e-3, "rdp") for steps in (6, 12)]
    assert script["epsilons"] == expected
    saved = script["privacy_engine"].load_checkpoint(
        path=script["checkpoint"], module=script["model"], optimizer=script["optimizer"]
    )
    assert saved["epoch"] == 0
    head = script["model"].head.weight
    assert torch.equal(head, saved["module_state_dict"]["head.weight"])
    assert not torch.equal(head, script["last_weights"])
    # The six steps after the checkpoint were made, so they stay counted.
    assert script["privacy_engine"].get_epsilon(1e-3) == expected[1]


def test_ghost_clipping_takes_any_number_of_epochs(capsys):
    script = run_script("layers")
    assert script["steps"] == 30
    assert script["epsilons"] == [epsilon(40, 400, 30, 1.1, 1e-3)]
    assert "epoch 2" in capsys.readouterr().out
    assert {
        choice.norm_method for choice in script["privacy_engine"].engine.explain()
    } == {"ghost"}


@pytest.mark.parametrize("mode", ["hooks", "ew", "functorch", "ghost"])
def test_clipped_sums_are_those_of_a_loop_by_hand(mode):
    data = pairs(records=20)
    _, model, optimizer, loader = made_private(
        dataset=data, noise_multiplier=0.0, max_grad_norm=0.3, grad_sample_mode=mode
    )
    (x, y) = next(iter(loader))  # the batch size is the number of records
    clipped = torch.zeros(2, 3)
    for i in range(len(x)):
        own = copy.deepcopy(model)
        loss = cross_entropy(own(x[i : i + 1]), y[i : i + 1])
        weight, bias = torch.autograd.grad(loss, [own.weight, own.bias])
        norm = (weight.square().sum() + bias.square().sum()).sqrt()
        clipped += weight * min(1.0, 0.3 / norm)
    before = model.weight.detach().clone()
    cross_entropy(model(x), y).backward()
    optimizer.step()
    moved = (before - model.weight.detach()) / 0.1 * 20
    torch.testing.assert_close(moved, clipped, rtol=1e-4, atol=1e-6)


def test_a_list_of_bounds_clips_each_parameter():
    engine, *_ = made_private(clipping="per_layer", max_grad_norm=[0.5, 0.2])
    assert engine.engine.options.clipping_style == "param-wise"
    with pytest.raises(ConfigError, match="max_grad_norm"):
        made_private(clipping="per_layer", max_grad_norm=[0.5])


def test_adaptive_clipping_has_the_quantile_of_opacus():
    engine, model, optimizer, loader = made_private(
        clipping="adaptive", target_unclipped_quantile=0.7, clipbound_learning_rate=0.1
    )
    schedule = engine.engine.options.clipping_schedule
    assert (schedule.quantile, schedule.learning_rate) == (0.7, 0.1)
    train(model, optimizer, loader)
    assert engine.get_epsilon(1e-3) > 0


def test_a_second_run_adds_to_the_first():
    privacy_engine, model, optimizer, loader = made_private()
    train(model, optimizer, loader)
    first = privacy_engine.get_epsilon(1e-3)
    given = {
        "module": model,
        "optimizer": optimizer,
        "data_loader": loader_of(),
        "max_grad_norm": 1.0,
    }
    with pytest.warns(PrivacyWarning, match="excludes the steps"):
        *_, second = privacy_engine.make_private_with_epsilon(
            **given, target_epsilon=2.0, target_delta=1e-3, epochs=1
        )
    train(model, optimizer, second)
    assert privacy_engine.get_epsilon(1e-3) > max(first, 2.0)


def test_one_engine_trains_one_model():
    """The first model would otherwise go on without noise, and without a word."""
    privacy_engine, model, optimizer, loader = made_private()
    with pytest.raises(ConfigError, match="PrivacyEngine for each model") as error:
        made_private(privacy_engine)
    assert error.value.field == "module"
    train(model, optimizer, loader)
    assert model.weight.private_grad is not None
    assert privacy_engine.get_epsilon(1e-3) == epsilon(20, 100, 5, 1.0, 1e-3)


def test_without_poisson_sampling_there_is_no_epsilon():
    engine, model, optimizer, loader = made_private(poisson_sampling=False)
    assert isinstance(loader, DataLoader)
    train(model, optimizer, loader)
    with pytest.raises(PrivacyError, match="assume_poisson") as caught:
        engine.get_epsilon(1e-3)
    assert "poisson_sampling=False" in caught.value.__notes__[0]


@pytest.mark.parametrize(
    ("name", "words"),
    [("user_ids", "Use dp.PrivacyEngine"), ("user_idz", "no equivalent here")],
)
def test_an_argument_that_opacus_lacks_names_the_engine_that_has_it(name, words):
    with pytest.raises(ConfigError, match=f"{name} .*{words}"):
        made_private(**{name: [0, 1]})


class Stream(IterableDataset):
    def __iter__(self):
        return iter(pairs())


@pytest.mark.parametrize(
    ("field", "options"),
    {
        "data_loader": {"data_loader": [1, 2]},
        "dataset of a stream": {"data_loader": DataLoader(Stream(), batch_size=2)},
        "data_loader with weights": {
            "data_loader": loader_of(sampler=WeightedRandomSampler([1.0] * 100, 100))
        },
        "data_loader with batches": {
            "data_loader": DataLoader(pairs(), batch_sampler=[[0, 1], [2, 3]])
        },
        "batch_first": {"batch_first": False},
        "noise_generator": {"noise_generator": torch.Generator()},
        "grad_sample_mode": {"grad_sample_mode": "ghost_fsdp"},
        "clipping": {"clipping": "per-layer"},
        "noise_multiplier": {"noise_multiplier": -1.0},
        "max_grad_norm": {"max_grad_norm": 0.0},
        "loss_reduction": {"loss_reduction": "none"},
        "total_steps": {"total_steps": 10},
        "max_clipbound": {"clipping": "adaptive", "max_clipbound": 1.0},
    }.items(),
)
def test_an_argument_without_equivalent_is_rejected_by_name(field, options):
    model = nn.Linear(3, 2)
    with pytest.raises(ConfigError) as error:
        made_private(module=model, **options)
    assert error.value.field == field.partition(" ")[0]
    assert str(error.value)


@pytest.mark.parametrize("accountant", ["gdp", "exact"])
def test_an_accountant_without_equivalent_is_rejected(accountant):
    with pytest.raises(ConfigError, match="accountant"):
        opacus.PrivacyEngine(accountant=accountant)


def test_names_that_are_absent_name_the_remedy():
    with pytest.raises(ImportError, match="per_sample_gradients"):
        exec("from dpsgd_explorer.compat.opacus import GradSampleModule")
    with pytest.raises(ImportError, match="cannot import name"):
        exec("from dpsgd_explorer.compat.opacus import Nothing")


def test_nothing_can_be_asked_before_a_run():
    engine = opacus.PrivacyEngine()
    for ask in (
        lambda: engine.get_epsilon(1e-5),
        lambda: engine.accountant,
        lambda: engine.save_checkpoint(path="x", module=nn.Linear(1, 1)),
    ):
        with pytest.raises(PrivacyError, match="make_private"):
            ask()


def test_a_model_is_validated_and_repaired():
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    assert not opacus.ModuleValidator.is_valid(model)
    with pytest.raises(UnsupportedModuleError, match="BatchNorm1d"):
        opacus.ModuleValidator.validate(model, strict=True)
    fixed = opacus.ModuleValidator.fix_and_validate(model)
    assert isinstance(fixed[1], nn.GroupNorm)
    assert isinstance(model[1], nn.BatchNorm1d)
    engine = opacus.PrivacyEngine()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    given = {"optimizer": optimizer, "data_loader": loader_of()}
    assert not engine.is_compatible(module=model, **given)
    assert engine.is_compatible(module=fixed, **given)
    assert isinstance(engine.get_compatible_module(model)[1], nn.GroupNorm)


def test_parts_end_with_their_context():
    _, model, optimizer, loader = made_private()
    with opacus.BatchMemoryManager(
        data_loader=loader, max_physical_batch_size=3, optimizer=optimizer
    ) as parts:
        assert max(len(x) for x, _ in train_sizes(model, optimizer, parts)) <= 3
    assert loader.physical_batch_size is None
    with pytest.raises(ConfigError, match="max_physical_batch_size"):
        opacus.BatchMemoryManager(
            data_loader=loader, max_physical_batch_size=0, optimizer=optimizer
        )
    with pytest.raises(ConfigError, match="make_private"):
        opacus.BatchMemoryManager(
            data_loader=loader_of(), max_physical_batch_size=3, optimizer=optimizer
        )


def test_parts_bound_the_size_of_the_first_check():
    sizes = []

    class Net(nn.Sequential):
        def forward(self, x):
            sizes.append(len(x))
            return super().forward(x)

    net = Net(nn.Linear(3, 2))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    *_, loader = made_private(module=net, optimizer=optimizer)
    with opacus.BatchMemoryManager(
        data_loader=loader, max_physical_batch_size=5, optimizer=optimizer
    ) as parts:
        train(net, optimizer, parts)
    assert max(sizes) <= 5


def train_sizes(model, optimizer, loader):
    for batch in loader:
        yield batch
        cross_entropy(model(batch[0]), batch[1]).backward()
        optimizer.step()
        optimizer.zero_grad()


def test_the_loader_is_one_of_the_library():
    *_, optimizer, loader = made_private()
    assert isinstance(loader, opacus.DPDataLoader)
    assert isinstance(optimizer, opacus.DPOptimizer)
    assert isinstance(loader, dp.PoissonLoader)
