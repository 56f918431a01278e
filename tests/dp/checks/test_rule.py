"""``check_rule`` accepts right rules and names the method of a wrong one."""

import pytest
import torch
from torch import nn

from dpsgd_explorer import dp
from dpsgd_explorer.dp.layers import RULES
from dpsgd_explorer.dp.layers.base import GradientRule
from dpsgd_explorer.dp.layers.linear import LinearNorm, LinearRule
from dpsgd_explorer.dp.layers.normalization import LayerNormRule
from dpsgd_explorer.errors import ConfigError, UnsupportedModuleError

SAMPLES = 3
IDS = torch.tensor([[1, 4, 1], [0, 2, 3], [5, 5, 5]])

#: Layers and the shapes of their inputs.
LAYERS = {
    "Linear": (lambda: nn.Linear(4, 3), (5, 4)),
    "Linear without positions": (lambda: nn.Linear(4, 3), (4,)),
    "Linear without bias": (lambda: nn.Linear(4, 3, bias=False), (2, 4)),
    "Conv1d": (lambda: nn.Conv1d(4, 6, 3, groups=2, padding=1), (4, 7)),
    "Conv2d": (
        lambda: nn.Conv2d(2, 3, 3, padding_mode="reflect", padding=1),
        (2, 5, 5),
    ),
    "Conv3d": (lambda: nn.Conv3d(1, 2, 2, stride=2), (1, 4, 4, 4)),
    "ConvTranspose1d": (lambda: nn.ConvTranspose1d(2, 3, 3, stride=2), (2, 4)),
    "ConvTranspose2d": (lambda: nn.ConvTranspose2d(2, 3, 3, padding=1), (2, 4, 4)),
    "ConvTranspose3d": (lambda: nn.ConvTranspose3d(1, 2, 2), (1, 3, 3, 3)),
    "Embedding": (lambda: nn.Embedding(6, 4, padding_idx=0), IDS),
    "EmbeddingBag": (lambda: nn.EmbeddingBag(6, 4, mode="mean"), IDS),
    "LayerNorm": (lambda: nn.LayerNorm(4), (5, 4)),
    "RMSNorm": (lambda: nn.RMSNorm(4), (5, 4)),
    "GroupNorm": (lambda: nn.GroupNorm(2, 4), (4, 5)),
    "InstanceNorm1d": (lambda: nn.InstanceNorm1d(4, affine=True), (4, 5)),
    "InstanceNorm2d": (lambda: nn.InstanceNorm2d(2, affine=True), (2, 3, 3)),
    "InstanceNorm3d": (lambda: nn.InstanceNorm3d(2, affine=True), (2, 2, 2, 2)),
    "PReLU": (lambda: nn.PReLU(4), (4, 5)),
}


def case(name, dtype=torch.float64):
    """Return a layer and a batch for it."""
    torch.manual_seed(1)
    make, inputs = LAYERS[name]
    if isinstance(inputs, tuple):
        inputs = torch.randn(SAMPLES, *inputs, dtype=dtype)
    layer = make().to(dtype)
    return layer, inputs


def test_every_rule_by_activations_and_backprops_is_in_the_cases():
    kinds = {kind for kind, rule in RULES.items() if isinstance(rule, GradientRule)}
    assert kinds == {type(case(name)[0]) for name in LAYERS}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("name", LAYERS)
def test_the_rules_of_torchs_layers_agree_with_autograd(name, dtype):
    layer, inputs = case(name, dtype)
    before = {n: p.requires_grad for n, p in layer.named_parameters()}
    dp.check_rule(layer, inputs)
    assert {n: p.requires_grad for n, p in layer.named_parameters()} == before
    assert all(p.grad is None for p in layer.parameters())


class Sum(LinearRule):
    """The sum is right, the samples are exchanged."""

    def per_sample_gradients(self, layer, activations, backprops):
        found = super().per_sample_gradients(layer, activations, backprops)
        return {name: gradient.flip(0) for name, gradient in found.items()}


class Forgotten(LinearRule):
    def per_sample_gradients(self, layer, activations, backprops):
        found = super().per_sample_gradients(layer, activations, backprops)
        return {"weight": found["weight"]}


class Turned(LinearRule):
    def per_sample_gradients(self, layer, activations, backprops):
        found = super().per_sample_gradients(layer, activations, backprops)
        return found | {"weight": found["weight"].mT}


class Norms(LinearRule):
    def measured_gradients(self, layer, activations, backprops):
        gradients, norms = super().measured_gradients(layer, activations, backprops)
        return gradients, norms * 0.99


class Form(LinearRule):
    def linear_form(self, layer, activations, backprops):
        [linear] = super().linear_form(layer, activations, backprops).values()
        return {"": linear._replace(inputs=linear.inputs.flip(0))}


class Short(LinearRule):
    class ShortNorm(LinearNorm):
        def squared_norms(self, *call):
            return super().squared_norms(*call) * 0.99

    ghost_norm = ShortNorm()


class Unweighted(LinearRule):
    class UnweightedNorm(LinearNorm):
        def add_weighted(self, layer, activations, backprops, weights, sums):
            ones = torch.ones_like(weights)
            super().add_weighted(layer, activations, backprops, ones, sums)

    ghost_norm = UnweightedNorm()


WRONG = {
    Sum: r"^Sum\.per_sample_gradients must agree .* the gradient of weight is wrong",
    Forgotten: "parameters must be bias, weight, got weight",
    Turned: r"the gradient of weight must have shape \[3, 3, 4\], got \[3, 4, 3\]",
    Norms: r"^Norms\.measured_gradients must .* the norm of sample \d must not be",
    Form: r"^Form\.linear_form must agree",
    Short: r"^Short\.ghost_norm\.squared_norms must .* must not be smaller",
    Unweighted: r"^Unweighted\.ghost_norm\.add_weighted must agree",
}


@pytest.mark.parametrize("rule", WRONG, ids=lambda rule: rule.__name__)
def test_a_wrong_method_is_named(rule):
    with pytest.raises(UnsupportedModuleError, match=WRONG[rule]):
        dp.check_rule(*case("Linear"), rule=rule())


class AllOfBoth(LayerNormRule):
    """With the bias alone it forgets the positions."""

    bias_needs_no_activations = True

    def per_sample_gradients(self, layer, activations, backprops):
        if not layer.weight.requires_grad:
            return {"bias": backprops[:, 0]}
        return super().per_sample_gradients(layer, activations, backprops)


def test_a_wrong_gradient_of_the_bias_alone_is_named():
    layer, inputs = case("LayerNorm")
    with pytest.raises(UnsupportedModuleError, match="if the bias alone is trained"):
        dp.check_rule(layer, inputs, rule=AllOfBoth())
    assert all(p.requires_grad for p in layer.parameters())


@pytest.mark.parametrize(
    ("layer", "inputs", "message"),
    [
        (
            nn.LSTM(2, 2),
            torch.randn(2, 3, 2),
            "rule must be an instance",
        ),
        (nn.ReLU(), torch.randn(2, 3), "rule must be an instance"),
        (nn.Linear(3, 2), torch.randn(3), "inputs must be a batch"),
        (nn.Linear(3, 2).requires_grad_(False), torch.randn(2, 3), "trainable"),
    ],
)
def test_what_is_no_case_is_rejected(layer, inputs, message):
    with pytest.raises(ConfigError, match=message):
        dp.check_rule(layer, inputs)


def test_a_rule_that_does_not_know_a_parameter_is_named():
    class Weight(LinearRule):
        parameter_names = ("weight",)

    with pytest.raises(
        UnsupportedModuleError, match=r"Weight\.parameter_names .* bias"
    ):
        dp.check_rule(*case("Linear"), rule=Weight())


def test_a_layer_that_joins_its_samples_is_no_case():
    class Mean(nn.Linear):
        def forward(self, x):
            return super().forward(x).mean(0, keepdim=True)

    with pytest.raises(ConfigError, match="one row per sample"):
        dp.check_rule(Mean(3, 2), torch.randn(2, 3), rule=LinearRule())


class TwoForms(LinearRule):
    class CrossTerms(LinearNorm):
        def outer_products(self, layer, activations, backprops):
            products = super().outer_products(layer, activations, backprops)
            return products | {"bias": products["weight"]}

    ghost_norm = CrossTerms()


def test_outer_products_are_compared():
    with pytest.raises(UnsupportedModuleError, match=r"TwoForms\.ghost_norm\.outer"):
        dp.check_rule(*case("Linear"), rule=TwoForms())


@pytest.mark.parametrize(
    "inputs",
    [
        (),
        (None,),
        "text",
        [torch.randn(3, 4)],
        torch.tensor(1.0),
        torch.randn(0, 4),
        torch.randn(1, 4),
        (torch.randn(3, 4), torch.randn(2, 4)),
    ],
    ids=range(8),
)
def test_inputs_that_are_no_batch_are_rejected(inputs):
    with pytest.raises(ConfigError, match="inputs must be a tensor, or a tuple with"):
        dp.check_rule(nn.Linear(4, 3), inputs)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_inputs_that_are_not_finite_are_no_fault_of_the_rule(value):
    with pytest.raises(ConfigError, match="inputs must be finite"):
        dp.check_rule(nn.Linear(4, 3), torch.full((3, 4), value))


def test_neither_the_layer_nor_the_generator_changes():
    class Counting(nn.Linear):
        def forward(self, x):
            with torch.no_grad():
                self.calls += 1
            torch.rand(3)
            return super().forward(x)

    layer = Counting(4, 3)
    layer.register_buffer("calls", torch.zeros(()))
    before = torch.get_rng_state()
    dp.check_rule(layer, torch.randn(3, 4), rule=LinearRule())
    after = torch.get_rng_state()
    torch.set_rng_state(before)
    torch.randn(3, 4)
    assert torch.equal(after, torch.get_rng_state())
    assert layer.calls == 0


def test_a_rule_that_is_a_class_or_returns_no_dict_is_named():
    layer, inputs = case("Linear")
    with pytest.raises(ConfigError, match="must be an instance of a LayerRule"):
        dp.check_rule(layer, inputs, rule=LinearRule)

    class Listed(LinearRule):
        def per_sample_gradients(self, layer, activations, backprops):
            return [backprops]

    with pytest.raises(UnsupportedModuleError, match=r"Listed.* got \["):
        dp.check_rule(layer, inputs, rule=Listed())


def test_a_layer_that_its_rule_refuses_is_rejected():
    layer = nn.Embedding(6, 4, max_norm=1.0)
    before = layer.weight.detach().clone()
    with pytest.raises(UnsupportedModuleError, match="max_norm"):
        dp.check_rule(layer, IDS, rule=RULES[nn.Embedding])
    assert torch.equal(layer.weight, before)
