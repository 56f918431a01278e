"""What an engine may be asked to be, and what it tells of itself."""

import copy
import math

import pytest
import torch
import torch.nn.functional as F
from torch import optim

from dpsgd_explorer.accounting import Odometer, Plan, group_epsilon
from dpsgd_explorer.dp import PrivacyEngine
from dpsgd_explorer.dp.config import CHOICES
from dpsgd_explorer.errors import ConfigError, PrivacyError, UnsupportedModuleError
from tests.dp.nets import (
    attached,
    backward,
    case,
    data,
    linear,
    private_run,
    step,
    train,
)


def plan_of(noise_multiplier, delta, accountant):
    return Plan.create(
        sample_size=40, expected_batch_size=8, steps=3,
        noise_multiplier=noise_multiplier, delta=delta, accountant=accountant,
    )  # fmt: skip


def run(steps=3, **options):
    """Return (net, optimizer, engine) after a run."""
    net = linear()
    optimizer = optim.SGD(net.parameters(), lr=0.1)
    return net, optimizer, private_run(net, optimizer, data(), steps, **options)


def test_epsilon_is_that_of_the_steps_done():
    *_, engine = run()
    plan = plan_of(1.0, 1 / 80, "exact")
    assert engine.plan == plan
    assert engine.get_epsilon() == plan.epsilon(3)
    assert engine.get_epsilon(delta=1e-6) > engine.get_epsilon()


def test_the_odometer_of_an_engine_goes_on_with_other_queries():
    *_, engine = run(4)
    odometer = Odometer.from_json(engine.odometer().to_json())
    assert sum(phase.steps for phase in odometer.phases) == 4
    delta = engine.plan.delta
    assert odometer.epsilon(delta) == engine.get_epsilon()
    odometer.add_gaussian(10.0)
    assert odometer.epsilon(delta) > engine.get_epsilon()


def test_several_records_of_a_person_cost_what_the_accountant_says():
    *_, engine = run(3)
    settings = {"sample_rate": 0.2, "noise_multiplier": 1.0, "steps": 3}
    four = group_epsilon(**settings, delta=1e-3, records=4)
    assert engine.group_epsilon(4, delta=1e-3) == four
    assert engine.group_epsilon(1) == engine.get_epsilon() < engine.group_epsilon(4)
    *_, unchecked = run(3, sampling="unchecked")
    with pytest.raises(PrivacyError, match="assumes Poisson sampling"):
        unchecked.group_epsilon(2)
    assert unchecked.group_epsilon(4, delta=1e-3, assume_poisson=True) == four


def test_no_step_spends_nothing_and_no_noise_spends_everything():
    net, x, y = case("mlp")
    engine, optimizer = attached(net, noise_multiplier=0.0)
    step(net, optimizer, x, y)
    assert engine.get_epsilon(assume_poisson=True) == math.inf
    assert engine.receipt()["epsilon"] is None
    fresh, _ = attached(copy.deepcopy(net), noise_multiplier=1.0)
    assert fresh.get_epsilon(assume_poisson=True) == 0.0


def test_a_target_is_met_and_never_exceeded():
    net, optimizer, engine = run(target_epsilon=2.0, noise_multiplier=None)
    assert 1.9 < engine.get_epsilon() <= 2.0
    more = engine.poisson_loader(data(), steps=4).all_epochs()
    backward(net, *next(more))
    with pytest.raises(PrivacyError, match="all 3 planned steps"):
        optimizer.step()


def test_without_a_target_more_steps_are_counted():
    net, optimizer, engine = run()
    train(net, optimizer, engine.poisson_loader(data(), steps=5).all_epochs())
    assert engine.steps_done == 5
    assert engine.get_epsilon() == engine.plan.epsilon(5) > engine.plan.epsilon(3)


def test_unchecked_sampling_gives_epsilon_to_those_who_vouch():
    net, x, y = case("mlp")
    engine, optimizer = attached(net, noise_multiplier=1.0)
    step(net, optimizer, x, y)
    with pytest.raises(PrivacyError, match="assume_poisson=True"):
        engine.get_epsilon()
    assert engine.receipt()["epsilon"] is None
    assert engine.get_epsilon(assume_poisson=True) == engine.plan.epsilon(1)
    assert "vouched" in engine.receipt()["sampling"]
    assert engine.receipt()["epsilon"] == engine.plan.epsilon(1)


def test_a_plan_changed_on_the_way_gives_no_epsilon():
    *_, engine = run()
    engine._state.plan = plan_of(2.0, 1 / 80, "rdp")
    for ask in (engine.get_epsilon, engine.receipt):
        with pytest.raises(PrivacyError, match=r"2\.0 in the plan of the accountant"):
            ask()


GOOD = {"batch_size": 8, "sample_size": 40, "steps": 3, "noise_multiplier": 1.0}
BAD = {
    "engine": {"engine": "functorch"},
    "clipping_fn": {"clipping_fn": "abadi"},
    "clipping_style": {"clipping_style": "layerwise"},
    "clipping_mode": {"clipping_mode": "Mixed"},
    "loss_reduction": {"loss_reduction": "none"},
    "noise": {"noise": "quantum"},
    "seed": {"noise": "secure", "seed": 3},
    "sampling": {"sampling": "shuffled"},
    "accounting_mode": {"accounting_mode": "guess"},
    "max_grad_norm": {"max_grad_norm": 0.0},
    "physical_batch_size": {"physical_batch_size": 0},
    "steps": {"epochs": 2.0},
    "noise_multiplier": {"target_epsilon": 2.0},
    "batch_size": {"batch_size": 41},
    "sample_size": {"sample_size": None},
    "target_delta": {"target_delta": 1 / 40},
    "origin_params": {"origin_params": ["head"]},
    "named_params": {"named_params": []},
    "loss_fn": {"example_inputs": (torch.zeros(1, 4), torch.zeros(1))},
    "example_inputs": {"loss_fn": F.cross_entropy},
}


@pytest.mark.parametrize("field", BAD)
def test_what_it_cannot_be_is_refused_by_name(field):
    with pytest.raises(ConfigError, match=field) as caught:
        PrivacyEngine(linear(), **{**GOOD, **BAD[field]})
    assert caught.value.field == field


@pytest.mark.parametrize("field", CHOICES)
def test_refusals_list_the_choices_there_are(field):
    with pytest.raises(ConfigError) as caught:
        PrivacyEngine(linear(), **GOOD, **{field: "nothing"})
    assert all(choice in str(caught.value) for choice in CHOICES[field])


def test_arguments_of_fastdp_are_taken():
    net = linear()
    PrivacyEngine(
        net,
        **GOOD,
        named_params=list(net.named_parameters()),
        origin_params=["weight"],
    )


def test_a_plan_stands_for_its_parts():
    plan = plan_of(1.0, 1e-3, "rdp")
    assert PrivacyEngine(linear(), plan=plan).plan is plan
    with pytest.raises(ConfigError, match="together with plan"):
        PrivacyEngine(linear(), plan=plan, steps=3)


def test_a_seed_is_drawn_if_none_is_given():
    seeds = {PrivacyEngine(linear(), **GOOD, noise="seeded").seed for _ in range(3)}
    assert len(seeds) == 3
    assert None not in seeds


def test_secure_noise_has_no_seed():
    engine = PrivacyEngine(linear(), **GOOD)
    assert engine.options.noise == "secure"
    assert engine.seed is None


def test_errors_are_both_ours_and_pythons():
    assert issubclass(UnsupportedModuleError, PrivacyError)
    assert issubclass(PrivacyError, RuntimeError)
