"""``examine``: everything that would be rejected, at once, and nothing else."""

import copy
import random
import threading

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from dpsgd_explorer import dp
from dpsgd_explorer.dp.config import ENGINES
from dpsgd_explorer.dp.examination import ATTACHED, LOSS_NOT_RUN, NOT_RUN
from dpsgd_explorer.errors import ConfigError, UnsupportedModuleError


class Centered(nn.Module):
    def forward(self, x):
        return x - x.mean(0)


def mixed_loss(outputs, targets):
    return (outputs - outputs.mean(0) - targets).square().mean()


def example(batch=6):
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(batch, 4, generator=generator)
    return inputs, torch.randn(batch, 2, generator=generator)


def net(*middle):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), *middle, nn.Linear(8, 2))


@pytest.mark.parametrize("engine", sorted(ENGINES))
def test_a_model_that_can_be_trained_has_no_reasons(engine):
    assert dp.examine(net(nn.ReLU()), example(), nn.MSELoss(), engine=engine) == []


def test_every_module_is_named_with_its_remedy():
    table = nn.Embedding(9, 4, max_norm=1.0)
    model = nn.Sequential(table, nn.BatchNorm1d(4), nn.Linear(4, 8), nn.BatchNorm1d(4))
    model[3].requires_grad_(False)
    inputs = torch.zeros(6, 4, dtype=torch.long)

    def loss_fn(outputs, targets):
        return outputs.mean() - targets.mean()

    reasons = dp.examine(model, (inputs, torch.zeros(6)), loss_fn)
    batch_norms = [r for r in reasons if "(BatchNorm1d)" in r]
    assert len(batch_norms) == 2
    assert all("Use GroupNorm or LayerNorm" in r for r in batch_norms)
    assert any("0 (Embedding) has max_norm=1" in reason for reason in reasons)


def test_a_repairable_layer_hides_no_other_reason():
    model = net(nn.BatchNorm1d(8), Centered())
    reasons = dp.examine(model, example(), mixed_loss)
    first, second, third = reasons
    assert first.startswith("1 (BatchNorm1d)")
    assert second.startswith("2 (Centered) mixes the samples")
    assert third.startswith("the loss mixes the samples")


def test_each_reason_is_one_that_attach_raises():
    for model, loss_fn in [
        (net(nn.BatchNorm1d(8)), nn.MSELoss()),
        (net(Centered()), nn.MSELoss()),
        (net(), mixed_loss),
        (net(), nn.MSELoss(reduction="sum")),
    ]:
        engine = dp.PrivacyEngine(
            model,
            sample_size=1000,
            batch_size=1,
            steps=1,
            noise_multiplier=1.0,
            example_inputs=example(),
            loss_fn=loss_fn,
        )
        with pytest.raises(UnsupportedModuleError) as raised:
            engine.attach(torch.optim.SGD(model.parameters(), lr=0.1))
        assert dp.examine(model, example(), loss_fn) == [str(raised.value)]


def test_a_loss_that_fits_its_reduction_is_no_reason():
    summed = nn.MSELoss(reduction="sum")
    assert dp.examine(net(), example(), summed, loss_reduction="sum") == []


def test_a_layer_without_sizes_says_that_nothing_was_run():
    model = nn.Sequential(nn.LazyLinear(3), nn.BatchNorm1d(3), nn.Linear(3, 2))
    reasons = dp.examine(model, example(), nn.MSELoss())
    assert reasons[-1] == NOT_RUN
    assert [reason.split()[0] for reason in reasons[:-1]] == ["0", "1"]


def test_a_module_that_cannot_be_repaired_says_that_nothing_was_run():
    reasons = dp.examine(nn.DataParallel(net()), example(), nn.MSELoss())
    assert reasons[-1] == NOT_RUN
    assert "Attach to model.module" in reasons[0]


def test_hidden_parameters_are_a_reason_of_the_layered_engines_only():
    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(4, 2)

        def forward(self, x):
            return F.linear(x, self.inner.weight, self.inner.bias)

    hooks = dp.examine(Outer(), example(), nn.MSELoss())
    assert hooks
    assert dp.examine(Outer(), example(), nn.MSELoss(), engine="vmap") == []


def test_a_frozen_model_has_nothing_to_train():
    model = net().requires_grad_(False)
    (reason,) = dp.examine(model, example(), nn.MSELoss())
    assert "no trainable parameters" in reason


def test_the_model_is_as_before():
    model = net(nn.BatchNorm1d(8), nn.Dropout())
    before = copy.deepcopy(model.state_dict())
    random = torch.get_rng_state()
    dp.examine(model, example(), nn.MSELoss())
    assert model.training
    assert isinstance(model[1], nn.BatchNorm1d)
    assert not model._forward_hooks
    torch.testing.assert_close(model.state_dict(), before)
    assert torch.equal(torch.get_rng_state(), random)


def test_a_loss_of_the_models_own_weights_is_a_reason_and_leaves_no_gradient():
    model = net(nn.ReLU())
    model[0].weight.grad = torch.ones(8, 4)

    def penalized(outputs, targets):
        return F.mse_loss(outputs, targets) + 1e-3 * model[0].weight.square().sum()

    (reason,) = dp.examine(model, example(), penalized)
    assert "0.weight" in reason
    assert torch.equal(model[0].weight.grad, torch.ones(8, 4))
    assert all(p.grad is None for p in model[2].parameters())


def test_a_loss_of_a_repaired_models_weights_is_not_said_to_be_checked():
    model = net(nn.BatchNorm1d(8))

    def penalized(outputs, targets):
        return F.mse_loss(outputs, targets) + 1e-3 * model[0].weight.square().sum()

    reasons = dp.examine(model, example(), penalized)
    assert reasons[0].startswith("1 (BatchNorm1d)")
    assert reasons[-1] == NOT_RUN
    assert model[0].weight.grad is None


def test_a_model_that_mixes_behind_a_dict_says_that_its_loss_was_not_run():
    class Named(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(4, 2)

        def forward(self, x):
            hidden = self.inner(x)
            return {"logits": hidden - hidden.mean(0)}

    def loss_fn(outputs, targets):
        return F.mse_loss(outputs["logits"], targets)

    reasons = dp.examine(Named(), example(), loss_fn)
    assert len(reasons) >= 2
    assert reasons[-1] == LOSS_NOT_RUN


def test_an_attached_model_is_not_touched():
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    sizes = {"sample_size": 1000, "batch_size": 6, "steps": 2, "noise_multiplier": 1.0}
    engine = dp.PrivacyEngine(model, **sizes, sampling="unchecked")
    engine.attach(optimizer)
    inputs, targets = example()
    F.mse_loss(model(inputs), targets).backward()
    assert dp.examine(model, example(), nn.MSELoss()) == [ATTACHED]
    optimizer.step()
    assert engine.steps_done == 1


def test_a_model_that_fails_on_its_inputs_has_a_reason():
    (reason, *_) = dp.examine(net(), (torch.randn(6, 5), torch.randn(6, 2)), F.mse_loss)
    assert "shapes cannot be multiplied" in reason


def test_a_model_that_cannot_be_copied_is_measured_if_it_needs_no_repair():
    model = net()
    model.lock = threading.Lock()
    assert dp.examine(model, example(), nn.MSELoss()) == []
    model = net(nn.BatchNorm1d(8))
    model.lock = threading.Lock()
    assert dp.examine(model, example(), nn.MSELoss())[-1] == NOT_RUN


def test_random_numbers_of_the_caller_stay():
    class Drawing(nn.Linear):
        def forward(self, x):
            hidden = super().forward(x) * (1 + random.random() + np.random.rand())
            return hidden - hidden.mean(0)

    random.seed(5)
    np.random.seed(5)
    before = random.getstate(), np.random.get_state()[1].tolist()
    assert dp.examine(Drawing(4, 2), example(), nn.MSELoss())
    assert (random.getstate(), np.random.get_state()[1].tolist()) == before


def test_several_inputs_and_a_loss_inside_the_model():
    class Own(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(4, 2)

        def forward(self, x, targets):
            return F.mse_loss(self.inner(x), targets)

    inputs = example()

    def loss_fn(loss, targets):
        return loss

    assert dp.examine(Own(), (inputs, torch.zeros(6)), loss_fn) == []


def test_nothing_given_names_the_argument():
    with pytest.raises(ConfigError, match="example_inputs must be a pair"):
        dp.examine(net(), None, None)


@pytest.mark.parametrize("value", [None, torch.zeros(6, 4), (torch.zeros(6, 4),)])
def test_an_example_that_is_no_pair_names_the_argument(value):
    with pytest.raises(ConfigError, match="example_inputs must be a pair"):
        dp.examine(net(), value, nn.MSELoss())


def test_a_loss_that_is_no_function_names_the_argument():
    with pytest.raises(ConfigError, match="loss_fn must be a function"):
        dp.examine(net(), example(), "mse")


def test_a_model_that_is_no_module_names_the_argument():
    with pytest.raises(ConfigError, match="module"):
        dp.examine(len, example(), nn.MSELoss())


def test_an_unknown_engine_names_the_argument():
    with pytest.raises(ConfigError, match="engine must be one of"):
        dp.examine(net(nn.BatchNorm1d(8)), example(), nn.MSELoss(), engine="hook")
