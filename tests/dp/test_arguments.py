"""Arguments of the engine: values in help, numbers of any kind, and near misses."""

import typing
from fractions import Fraction

import numpy as np
import pytest
import torch
from torch import nn

from dpsgd_explorer.accounting import NAMES, NeighboringRelation
from dpsgd_explorer.dp import (
    AdaptiveClipping,
    ParameterAverage,
    PrivacyEngine,
    choices,
    schedules,
)
from dpsgd_explorer.dp.config import CHOICES
from dpsgd_explorer.dp.sampling.partition import PARTITIONS
from dpsgd_explorer.errors import ConfigError, ExplorerError
from dpsgd_explorer.validation import shown
from tests.dp.nets import linear

GOOD = {"batch_size": 8, "sample_size": 40, "steps": 3, "noise_multiplier": 1.0}
TABLES = {
    **CHOICES,
    "accounting_mode": NAMES,
    "audit_relation": list(NeighboringRelation),
    "partition": PARTITIONS,
}
#: Types of names; of the unions, the one that names are of.
TYPES = {
    "engine": choices.Engine,
    "clipping_mode": choices.ClippingModeName,
    "clipping_fn": choices.ClippingFn,
    "clipping_style": choices.ClippingStyleName,
    "loss_reduction": choices.LossReduction,
    "noise": choices.Noise,
    "sampling": choices.Sampling,
    "accounting_mode": choices.AccountingMode,
    "audit_relation": choices.AuditRelation,
    "partition": choices.Partition,
}


def made(**options):
    return PrivacyEngine(linear(), **{**GOOD, **options})


def documented(argument):
    """Return the text of an argument in the engine's help."""
    lines = PrivacyEngine.__doc__.splitlines()
    start = next(i for i, x in enumerate(lines) if x.startswith(f"        {argument}:"))
    rest = lines[start + 1 :]
    more = next(i for i, x in enumerate(rest) if not x.startswith(" " * 12))
    return "\n".join([lines[start], *rest[:more]])


def test_every_argument_with_names_has_its_type():
    assert set(TYPES) == set(TABLES)


@pytest.mark.parametrize("argument", TABLES)
def test_types_and_help_have_the_names_that_are_taken(argument):
    assert set(typing.get_args(TYPES[argument])) == {str(x) for x in TABLES[argument]}
    missing = [x for x in TABLES[argument] if f'"{x}"' not in documented(argument)]
    assert missing == []


@pytest.mark.parametrize(
    ("options", "meant"),
    [
        ({"engine": "hook"}, "hooks"),
        ({"clipping_fn": "abadi"}, "Abadi"),
        ({"clipping_mode": "mixopt"}, "MixOpt"),
        ({"clipping_mode": {"": "Ghost"}}, "ghost"),
        ({"clipping_style": "all_layer"}, "all-layer"),
        ({"accounting_mode": "RDP"}, "rdp"),
        ({"noise": "seed"}, "seeded"),
        ({"sampling": "Poisson"}, "poisson"),
        ({"loss_reduction": "Mean"}, "mean"),
        ({"partition": "stride"}, "strided"),
    ],
)
def test_a_near_miss_is_named(options, meant):
    with pytest.raises(ConfigError, match=f"Did you mean '{meant}'") as caught:
        made(**options)
    assert caught.value.field == next(iter(options))


def test_a_far_miss_gets_no_guess():
    with pytest.raises(ConfigError) as caught:
        made(engine="functorch")
    assert "Did you mean" not in str(caught.value)


NUMBERS = {
    "max_grad_norm": [np.float32(0.5), np.float64(0.5), torch.tensor(0.5),
                      Fraction(1, 2), [np.float32(0.5)], torch.tensor([0.5])],
    "batch_size": [np.int64(8), np.uint8(8), torch.tensor(8), 8.0],
    "sample_size": [np.int32(40), torch.tensor(40)],
    "steps": [np.int64(3), torch.tensor(3)],
    "noise_multiplier": [np.float32(1), torch.tensor(1.0), np.int64(1)],
    "target_delta": [np.float64(0.01), torch.tensor(0.01, dtype=torch.float64)],
    "physical_batch_size": [np.int64(4), torch.tensor(4)],
    "augmentation_multiplicity": [np.int64(2)],
    "audit": [np.int64(4)],
}  # fmt: skip


@pytest.mark.parametrize(
    ("argument", "value"), [(a, v) for a, values in NUMBERS.items() for v in values]
)
def test_numbers_of_numpy_and_torch_are_plain_numbers(argument, value):
    options = {"max_grad_norm": 0.5, "target_delta": 0.01}
    items = list(value) if isinstance(value, list | np.ndarray) else [value]
    plain = [x.item() if hasattr(x, "item") and x.ndim == 0 else x for x in items]
    plain = [float(x) if isinstance(x, Fraction) else x for x in plain]
    if getattr(value, "ndim", 0) == 1:
        plain = value.tolist()
    is_list = isinstance(value, list) or getattr(value, "ndim", 0) == 1
    expected = made(**options | {argument: plain if is_list else plain[0]})
    engine = made(**options | {argument: value})
    assert engine.plan == expected.plan
    assert engine.options == expected.options
    for number in (engine.options.max_grad_norm, engine.plan.delta):
        for each in number if isinstance(number, list) else [number]:
            assert type(each) in (int, float)


WRONG = {
    "max_grad_norm": [True, 0, -1, float("nan"), "1", None, [], [1.0, True], 1j],
    "clipping_threshold": [True, 0],
    "batch_size": [20.5, True, "8", 0, 41, float("inf")],
    "sample_size": [40.5, True, "40", 0],
    "steps": [2.5, True, "3", 0],
    "noise_multiplier": [True, "1", -1.0, float("nan")],
    "target_delta": ["1e-5", True, 0, 1.0, float("nan")],
    "physical_batch_size": [0, 2.5, True, "4"],
    "augmentation_multiplicity": [0, 1.5, True, "2"],
    "audit": [True, 2.5, "4", -1],
}
WRONG = {
    argument: [*values, np.ma.masked, 10**5000, np.array([[1.0, 2.0]])]
    for argument, values in WRONG.items()
}


@pytest.mark.parametrize(
    ("argument", "value"),
    [(a, v) for a, values in WRONG.items() for v in values],
    ids=shown,
)
def test_a_wrong_number_is_refused_by_its_own_name(argument, value):
    more = {"clipping_fn": "global"} if argument == "clipping_threshold" else {}
    with pytest.raises(ConfigError) as caught:
        made(**more | {argument: value})
    assert caught.value.field == argument
    message = str(caught.value)
    assert message.startswith(argument)
    assert " must be " in message
    assert f"got {shown(value)}" in message or isinstance(value, list)
    assert "expected_batch_size" not in message


@pytest.mark.parametrize(
    "value",
    [np.ma.masked, 10**5000, np.array([0.25, 0.5]), None],
    ids=shown,
)
def test_a_wrong_number_of_another_class_is_refused_by_its_own_name(value):
    net = linear()
    engine = PrivacyEngine(net, **GOOD)
    engine.attach(torch.optim.SGD(net.parameters(), lr=0.1))
    calls = {
        "max_grad_norm": engine.choose_max_grad_norm,
        "decay": lambda x: ParameterAverage(net, x),
        "quantile": lambda x: AdaptiveClipping(quantile=x),
        "learning_rate": lambda x: AdaptiveClipping(learning_rate=x),
        "rate": schedules.Exponential,
    }
    for argument, call in calls.items():
        with pytest.raises(ConfigError, match=f"{argument} .*must be ") as caught:
            call(value)
        assert caught.value.field == argument


@pytest.mark.parametrize(
    ("options", "given"),
    [
        ({"epochs": 2}, "got steps = 3 and epochs = 2"),
        ({"steps": None, "target_epsilon": 2.0, "noise_multiplier": None}, "neither"),
        ({"steps": 10**5000, "epochs": 2}, "over 4300 digits and epochs = 2"),
        ({"target_epsilon": 2.0}, "noise_multiplier = 1.0 and target_epsilon = 2.0"),
        ({"noise_multiplier": None}, "neither"),
    ],
)
def test_two_arguments_that_say_the_same_are_both_shown(options, given):
    with pytest.raises(ConfigError, match=f"exactly one of .*{given}"):
        made(**options)


@pytest.mark.parametrize("module", [nn.Linear, None, "linear", linear().parameters()])
def test_what_is_no_module_is_refused(module):
    with pytest.raises(
        ConfigError, match=r"module must be a torch\.nn\.Module"
    ) as caught:
        PrivacyEngine(module, **GOOD)
    assert caught.value.field == "module"
    assert isinstance(caught.value, ExplorerError)
