"""``examine``: everything that would be rejected, at once, and nothing else."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from dpsgd_explorer import dp
from dpsgd_explorer.dp.examination import NOT_RUN
from dpsgd_explorer.dp.options import ENGINES
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
