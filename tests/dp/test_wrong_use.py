"""Wrong uses whose own error would not name the cause, and batches without records."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from dpsgd_explorer import dp
from dpsgd_explorer.dp.layers.linear import LinearNorm, LinearRule
from dpsgd_explorer.errors import ConfigError, PrivacyError, UnsupportedModuleError
from tests.dp.nets import attached

DATA = torch.randn(50, 4), torch.randint(0, 2, (50,))


def run_of(model, **options):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    options = {"batch_size": 8, "epochs": 1, "noise_multiplier": 1.0} | options
    return optimizer, dp.make_private(model, optimizer, DATA, **options)


@pytest.mark.parametrize(
    ("loss_fn", "message"),
    [
        ("mse", "got 'mse'. Pass for example torch.nn.functional.mse_loss"),
        (nn.MSELoss, r"Pass an instance, loss_fn=MSELoss\(\)"),
        ([nn.MSELoss()], "Pass for example torch.nn.functional.mse_loss"),
    ],
    ids=["name", "class", "list"],
)
def test_a_loss_that_is_no_function_is_refused(loss_fn, message):
    with pytest.raises(ConfigError, match=message) as refusal:
        run_of(nn.Linear(4, 2), loss_fn=loss_fn)
    assert str(refusal.value).startswith("loss_fn must be a function of outputs and")
    assert refusal.value.field == "loss_fn"


def test_a_loss_function_without_a_tensor_is_refused():
    with pytest.raises(ConfigError, match="loss_fn must return a tensor"):
        run_of(nn.Linear(4, 2), loss_fn=lambda outputs, targets: 3.0)


def trained_in_parts(*, only_at_the_end):
    """Train a batch in parts with a scaler of losses; return scaler and run."""
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    execution = dp.Execution(
        engine="extending", grad_scaler=scaler, physical_batch_size=2
    )
    model = nn.Linear(4, 2)
    optimizer, run = run_of(model, execution=execution)
    for epoch in run.epochs():
        for x, y in epoch:
            scaler.scale(F.cross_entropy(model(x), y)).backward()
            if not only_at_the_end or model.weight.grad is not None:
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad()
    return scaler, run


def test_a_scaler_that_steps_within_a_batch_is_told_when_to_step():
    with pytest.raises(
        PrivacyError, match=r"GradScaler\.step\(\) must be called after"
    ):
        trained_in_parts(only_at_the_end=False)


def test_a_scaler_may_step_at_the_end_of_each_batch():
    scaler, run = trained_in_parts(only_at_the_end=True)
    assert run.engine.steps_done == run.plan.steps
    assert run.epsilon() > 0
    run.engine.detach()
    assert scaler.step.__func__ is torch.amp.GradScaler.step


def test_engines_that_share_a_scaler_leave_it_as_it_was():
    scaler = torch.amp.GradScaler("cpu")
    execution = dp.Execution(engine="extending", grad_scaler=scaler)
    runs = [run_of(nn.Linear(4, 2), execution=execution)[1] for _ in range(2)]
    for run in runs:
        run.engine.detach()
    assert scaler.step.__func__ is torch.amp.GradScaler.step


def test_an_engine_without_gradients_before_the_step_names_the_scaler():
    model = nn.Linear(4, 2)
    optimizer, run = run_of(model, assume_per_sample_loss=True)
    scaler = torch.amp.GradScaler("cpu")
    x, y = next(iter(run.loader))
    scaler.scale(F.cross_entropy(model(x), y)).backward()
    with pytest.raises(
        PrivacyError, match="GradScaler needs that engine too, and grad"
    ):
        scaler.step(optimizer)


class Kernel(nn.Linear):
    """A layer with a rule of its own in each test."""


class SmallNorm(LinearNorm):
    """Norms that are half of the true ones."""

    def squared_norms(self, *given):
        return super().squared_norms(*given) / 4


class DoubleSum(LinearNorm):
    """Sums that are twice the true ones."""

    def add_weighted(self, layer, activations, backprops, weights, sums):
        super().add_weighted(layer, activations, backprops, 2 * weights, sums)


class SmallNorms(LinearRule):
    ghost_norm = SmallNorm()


class DoubleSums(LinearRule):
    ghost_norm = DoubleSum()


class Gated(nn.Module):
    """A layer whose output is 0 for some samples, so that their gradients are, too."""

    def __init__(self):
        super().__init__()
        self.kernel = Kernel(4, 2)

    def forward(self, x):
        return self.kernel(x) * (x[:, :1] > 0)


@pytest.mark.parametrize("rule", [SmallNorms, DoubleSums])
@pytest.mark.parametrize("make", [lambda: Kernel(4, 2), Gated], ids=["bare", "gated"])
def test_a_wrong_rule_is_named(rule, make):
    remove = dp.register_rule(Kernel, rule())
    try:
        with pytest.raises(UnsupportedModuleError, match=rule.__name__):
            attached(make())[0].module(torch.randn(3, 4))
    finally:
        remove()


class Scaled(nn.Module):
    """A layer of few parameters, whose rule is wrong in each test."""

    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))

    def forward(self, x):
        return x * self.weight


class ScaledNorm(dp.GhostNorm):
    """Right for all inputs."""

    def squared_norms(self, layer, activations, backprops):
        products = (activations * backprops).flatten(1, -2).sum(1)
        return products.double().square().sum(1) * (1 + 1e-6)

    def add_weighted(self, layer, activations, backprops, weights, sums):
        products = (activations * backprops).flatten(1, -2).sum(1)
        sums["weight"].add_(weights @ products)


class ScaledRule(dp.LayerRule[Scaled]):
    parameter_names = ("weight",)

    def per_sample_gradients(self, layer, activations, backprops):
        return {"weight": (activations * backprops).flatten(1, -2).sum(1)}


class NoNorm(ScaledNorm):
    """Only a small share of the whole gradient."""

    def squared_norms(self, layer, activations, backprops):
        return activations.new_zeros(len(activations))


class NoCrossTerms(ScaledNorm):
    def squared_norms(self, layer, activations, backprops):
        return (activations * backprops).square().flatten(1).sum(1)


class WeightsOfOthers(ScaledNorm):
    """Right where all weights are equal."""

    def add_weighted(self, layer, activations, backprops, weights, sums):
        super().add_weighted(layer, activations, backprops, weights.flip(0), sums)


class MeanWeight(ScaledNorm):
    def add_weighted(self, layer, activations, backprops, weights, sums):
        mean = weights.mean().expand(len(weights))
        super().add_weighted(layer, activations, backprops, mean, sums)


class WrongWhereItIsChosenLater(NoNorm):
    """The first batch has five positions."""

    def cost_ratio(self, layer, activations, backprops):
        return 2.0 if activations.shape[1] == 5 else 0.0


@pytest.mark.parametrize(
    "norm",
    [NoNorm, NoCrossTerms, WeightsOfOthers, MeanWeight, WrongWhereItIsChosenLater],
)
@pytest.mark.parametrize("seed", range(3))
def test_a_wrong_norm_or_sum_of_a_small_layer_is_named(norm, seed):
    torch.manual_seed(seed)

    class Wrong(ScaledRule):
        ghost_norm = norm()

    remove = dp.register_rule(Scaled, Wrong())
    try:
        model = nn.Sequential(Scaled(64), nn.Flatten(), nn.Linear(5 * 64, 3))
        with pytest.raises(UnsupportedModuleError, match="Wrong"):
            attached(model)[0].module(torch.randn(3, 5, 64))
    finally:
        remove()


def test_a_right_norm_of_a_small_layer_trains():
    class Right(ScaledRule):
        ghost_norm = ScaledNorm()

    remove = dp.register_rule(Scaled, Right())
    try:
        model = nn.Sequential(Scaled(64), nn.Flatten(), nn.Linear(5 * 64, 3))
        attached(model)[0].module(torch.randn(3, 5, 64))
    finally:
        remove()


class Tripled:
    """A mixin: gradients of its own before those of another rule."""

    def per_sample_gradients(self, layer, activations, backprops):
        found = super().per_sample_gradients(layer, activations, backprops)
        return {name: 3 * gradient for name, gradient in found.items()}


class TripledLinear(Tripled, LinearRule):
    """It must inherit no description of the other gradients."""


class TripledNorm(LinearNorm):
    def squared_norms(self, *given):
        return 9 * super().squared_norms(*given)


def test_a_class_inherits_no_description_of_other_gradients():
    layer, x, g = nn.Linear(4, 2), torch.randn(3, 5, 4), torch.randn(3, 5, 2)
    assert TripledLinear.ghost_norm is None
    assert TripledLinear().linear_form(layer, x, g) == {}
    assert not TripledLinear.of_low_precision
    gradients, norms = TripledLinear().measured_gradients(layer, x, g)
    own = sum(gradient.flatten(1).square().sum(1) for gradient in gradients.values())
    torch.testing.assert_close(norms, own)
    assert TripledNorm().outer_products(layer, x, g) is None
    assert LinearNorm().outer_products(layer, x, g).keys() == {"weight", "bias"}


WRONG_MAPS = {
    "outputs": lambda linear: linear._replace(
        backprops=linear.backprops.repeat(1, 1, 2)
    ),
    "inputs": lambda linear: linear._replace(inputs=linear.inputs[..., :3]),
    "positions": lambda linear: linear._replace(inputs=linear.inputs[:, :1]),
    "samples": lambda linear: linear._replace(
        inputs=linear.inputs[:2], backprops=linear.backprops[:2]
    ),
    "bias": lambda linear: linear._replace(bias=False),
}


@pytest.mark.parametrize("name", WRONG_MAPS)
@pytest.mark.parametrize("mode", ["ghost", "instantiate"])
def test_maps_of_other_shapes_never_reach_compiled_code(name, mode):
    class WrongMaps(LinearRule):
        def linear_form(self, layer, activations, backprops):
            maps = super().linear_form(layer, activations, backprops)
            return {"": WRONG_MAPS[name](maps[""])}

    remove = dp.register_rule(Kernel, WrongMaps())
    execution = dp.Execution(clipping_mode=mode)
    try:
        model = nn.Sequential(Kernel(4, 2), nn.Flatten())
        run_of(model, execution=execution)
        with pytest.raises(UnsupportedModuleError, match="WrongMaps"):
            model(torch.randn(3, 5, 4))
    finally:
        remove()


@pytest.mark.parametrize("engine", ["hooks", "extending", "vmap", "microbatch"])
def test_batches_of_one_record_on_average_may_be_empty(engine):
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    execution = dp.Execution(engine=engine)
    optimizer, run = run_of(
        model, batch_size=1, execution=execution, noise=dp.Noise(kind="seeded", seed=1)
    )
    sizes, before = [], [p.detach().clone() for p in model.parameters()]
    for epoch in run.epochs():
        for x, y in epoch:
            sizes.append(len(x))
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
            optimizer.zero_grad()
    assert {0, 1} <= set(sizes)
    assert run.engine.steps_done == run.plan.steps == len(sizes)
    for parameter, start in zip(model.parameters(), before, strict=True):
        assert torch.isfinite(parameter).all()
        assert not torch.equal(parameter, start)
    assert 0 < run.epsilon() < 1


@pytest.mark.parametrize("name", ["noise_multiplier", "max_grad_norm", "seed", "plan"])
def test_an_argument_of_an_engine_cannot_be_set_afterwards(name):
    _, run = run_of(nn.Linear(4, 2))
    with pytest.raises(ConfigError, match=r"after=engine") as refusal:
        setattr(run.engine, name, 2.0)
    assert str(refusal.value).startswith(f"{name} must be given when the engine is")
    assert refusal.value.field == name
    assert run.engine.plan.noise_multiplier == 1.0
    run.engine.note = "an attribute of the caller"
    assert run.engine.note
