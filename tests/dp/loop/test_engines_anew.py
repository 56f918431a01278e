"""A notebook cell that makes an engine may be run again, on the same model."""

import warnings

import pytest
import torch
import torch.nn.functional as F
from torch.utils.data import TensorDataset

from dpsgd_explorer.dp import PrivacyEngine
from dpsgd_explorer.dp.config import ENGINES
from dpsgd_explorer.errors import ConfigError, PrivacyError
from tests.dp.nets import case

SIZES = {"batch_size": 4, "sample_size": 20, "noise_multiplier": 1.0}
SIZES |= {"noise": "seeded", "steps": 4}


def one_for_all(net):
    return [torch.optim.SGD(net.parameters(), lr=0.1)]


def one_for_each(net):
    return [torch.optim.SGD([p], lr=0.1) for p in net.parameters()]


def records():
    _, x, y = case("mlp")
    return TensorDataset(*(torch.cat([each] * 5)[:20] for each in (x, y)))


def train(net, optimizers, batches):
    for x, y in batches:
        F.cross_entropy(net(x), y).backward()
        for each in optimizers:
            each.step()
            each.zero_grad()


@pytest.mark.parametrize("engine", sorted(ENGINES))
@pytest.mark.parametrize("optimizers_are_new", [True, False])
@pytest.mark.parametrize("made", [one_for_all, one_for_each])
def test_a_cell_is_run_again(engine, optimizers_are_new, made):
    net, *_ = case("mlp")
    optimizers, steps = made(net), 0
    for seed in range(3):
        if optimizers_are_new:
            optimizers = made(net)
        own = PrivacyEngine(net, engine=engine, seed=seed, **SIZES)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            own.attach(*optimizers)
        said = [str(each.message) for each in caught]
        assert any(
            f"{steps} steps of an earlier engine" in each for each in said
        ) == bool(seed)
        loader = own.poisson_loader(records())
        train(net, optimizers, loader.all_epochs())
        steps = own.steps_done
        assert steps == SIZES["steps"]
        assert own.get_epsilon() > 0
    own.detach()
    assert all("zero_grad" not in vars(each) for each in optimizers)
    assert not any(module._forward_hooks for module in net.modules())


def test_an_engine_without_steps_is_replaced_silently():
    net, *_ = case("mlp")
    for seed in range(2):
        own = PrivacyEngine(net, seed=seed, **SIZES)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            own.attach(*one_for_all(net))


def test_steps_of_a_dropped_engine_that_was_given_as_after_are_counted():
    net, *_ = case("mlp")
    optimizers = one_for_all(net)
    own = PrivacyEngine(net, seed=1, **SIZES)
    own.attach(*optimizers)
    train(net, optimizers, own.poisson_loader(records()).all_epochs())
    spent = own.get_epsilon()
    own = PrivacyEngine(net, seed=2, after=own, **SIZES)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        own.attach(*optimizers)
    assert own.get_epsilon() == spent


def test_the_loader_of_a_replaced_engine_draws_no_more():
    net, *_ = case("mlp")
    own = PrivacyEngine(net, seed=1, **SIZES)
    own.attach(*one_for_all(net))
    loader = own.poisson_loader(records())
    own = PrivacyEngine(net, seed=2, **SIZES)
    own.attach(*one_for_all(net))
    with pytest.raises(PrivacyError, match="no optimizer is attached"):
        next(iter(loader))
    assert own.steps_done == 0


def test_training_stays_private_when_only_loader_and_optimizer_are_kept():
    net, *_ = case("mlp")
    optimizers = one_for_all(net)
    own = PrivacyEngine(net, seed=1, **SIZES)
    own.attach(*optimizers)
    state, loader = own._state, own.poisson_loader(records())
    del own
    train(net, optimizers, loader.all_epochs())
    assert state.ledger.steps == SIZES["steps"]


def test_an_engine_in_a_reference_cycle_is_gone_as_well():
    net, *_ = case("mlp")
    own = PrivacyEngine(net, seed=1, **SIZES)
    own.itself = own
    own.attach(*one_for_all(net))
    own = PrivacyEngine(net, seed=2, **SIZES)
    own.attach(*one_for_all(net))


def test_a_batch_in_flight_of_a_dropped_engine_is_left_out():
    net, x, y = case("mlp")
    optimizers = one_for_all(net)
    options = SIZES | {"sampling": "unchecked"}
    own = PrivacyEngine(net, seed=1, **options)
    own.attach(*optimizers)
    F.cross_entropy(net(x), y).backward()
    own = PrivacyEngine(net, seed=2, **options)
    own.attach(*optimizers)
    with pytest.raises(PrivacyError, match="must follow a backward"):
        optimizers[0].step()
    assert all(p.grad is None for p in net.parameters())


def test_a_part_of_the_model_and_a_model_around_it_count_as_the_same():
    net, *_ = case("mlp")
    own = PrivacyEngine(net, seed=1, **SIZES)
    own.attach(*one_for_all(net))
    around = torch.nn.Sequential(net)
    own = PrivacyEngine(around, seed=2, **SIZES)
    own.attach(*one_for_all(around))
    assert own.steps_done == 0


def test_an_optimizer_has_one_engine():
    """The same parameters in other modules: hooks of two engines would meet in it."""
    first = torch.nn.Linear(3, 2)
    second = torch.nn.Linear(3, 2)
    second.weight, second.bias = first.weight, first.bias
    optimizers = one_for_all(first)
    own = PrivacyEngine(first, seed=1, **SIZES)
    own.attach(*optimizers)
    other = PrivacyEngine(second, seed=2, **SIZES)
    with pytest.raises(PrivacyError, match=r"the optimizer .+ another engine"):
        other.attach(*optimizers)
    del own
    other.attach(*optimizers)


def test_where_the_former_engine_exists_the_error_says_what_to_do():
    net, *_ = case("mlp")
    former = PrivacyEngine(net, seed=1, **SIZES)
    former.attach(*one_for_all(net))
    own = PrivacyEngine(net, seed=2, **SIZES)
    with pytest.raises(PrivacyError, match=r"another engine.+Call detach\(\)"):
        own.attach(*one_for_all(net))
    former.detach()
    own.attach(*one_for_all(net))


def test_an_optimizer_that_needs_a_closure_is_refused():
    net, *_ = case("mlp")
    own = PrivacyEngine(net, **SIZES)
    with pytest.raises(ConfigError, match=r"LBFGS.+several times") as caught:
        own.attach(torch.optim.LBFGS(net.parameters()))
    assert "SGD" in str(caught.value)
    own.attach(*one_for_all(net))
