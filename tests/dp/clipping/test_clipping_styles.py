"""Blocks of any make: right, within their bounds, or refused by name."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from dpsgd_explorer.dp.clipping.clipper import (
    CLIPPING_FUNCTIONS,
    Clipper,
    global_factors,
)
from dpsgd_explorer.dp.clipping.groups import clipping_groups
from dpsgd_explorer.dp.config import CHOICES
from dpsgd_explorer.errors import ConfigError
from tests.dp.engines.test_engines_agree import EXACT, loop_gradients
from tests.dp.nets import (
    CLASSES,
    NETS,
    UNREAD,
    attached,
    case,
    clipped_sum,
    clipped_sums,
    step,
)

C = 0.3
STYLES = ["all-layer", "layer-wise", "param-wise"]
SMALL_NETS = ["mlp", "convolutions", "tokens", "branches", "bias only"]
ENGINE = pytest.mark.parametrize("engine", CHOICES["engine"])


def by_style(net, style):
    """Return the groups as lists of parameter names, worked out another way."""
    names = [n for n, p in net.named_parameters() if p.requires_grad]
    if style == "all-layer":
        return [names]
    if style == "param-wise":
        return [[name] for name in names]
    layers = dict.fromkeys(name.rpartition(".")[0] for name in names)
    return [[n for n in names if n.rpartition(".")[0] == each] for each in layers]


def loop_sum(net, x, y, groups, function, bounds):
    """Return the clipped sum by one backward a sample and plain arithmetic."""
    gradients = loop_gradients(net, x, y)
    total = {}
    for group, bound in zip(groups, bounds, strict=True):
        rows = torch.cat([gradients[name].flatten(1) for name in group], 1)
        factors = CLIPPING_FUNCTIONS[function](rows.norm(dim=1), bound)
        for name in group:
            total[name] = torch.einsum("b,b...->...", factors, gradients[name])
    return total


def check_groups(net, x, y, groups, bounds=None, clipping_fn="automatic", **options):
    """Compare a clipped sum with the loop's; bounds that are not given are equal."""
    bounds = bounds or [C / math.sqrt(len(groups))] * len(groups)
    options = {"max_grad_norm": C, "clipping_fn": clipping_fn} | options
    actual = clipped_sum(net, x, y, **options)
    expected = loop_sum(net, x, y, groups, clipping_fn, bounds)
    torch.testing.assert_close(actual, expected, **EXACT)


@pytest.mark.sweep(2)
@pytest.mark.usefixtures("checked_before")
@ENGINE
@pytest.mark.parametrize("function", CLIPPING_FUNCTIONS)
@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("name", SMALL_NETS)
def test_every_style_is_that_of_a_loop(name, style, function, engine):
    net, x, y = case(name)
    options = {"engine": engine, "clipping_style": style, "clipping_fn": function}
    check_groups(net, x, y, by_style(net, style), **options)


@pytest.mark.parametrize("mode", CHOICES["clipping_mode"])
@pytest.mark.parametrize("name", ["sequence", "tokens", "convolutions"])
def test_every_mode_gives_the_same_groups(name, mode):
    net, x, y = case(name)
    options = {"clipping_mode": mode, "clipping_style": "param-wise"}
    check_groups(net, x, y, by_style(net, "param-wise"), **options)


HEADS = {
    "branches": (["left", "head"], [["left.weight", "left.bias", "right.weight",
        "unused.weight", "unused.bias", "ignored.weight", "ignored.bias"],
        ["head.weight", "head.bias"]]),
    "mlp": (["2", "0"], [["0.weight", "0.bias"], ["2.weight", "2.bias"]]),
}  # fmt: skip


@ENGINE
@pytest.mark.parametrize("name", HEADS)
def test_a_block_goes_from_its_head_to_the_next(name, engine):
    net, x, y = case(name)
    heads, groups = HEADS[name]
    check_groups(net, x, y, groups, engine=engine, clipping_style=heads)


@ENGINE
def test_explicit_groups_may_cut_through_a_layer_and_have_bounds_of_their_own(engine):
    net, x, y = case("mlp")
    groups = [["0.weight", "2.bias"], ["0.bias", "2.weight"]]
    bounds = [0.3, 0.04]
    options = {"engine": engine, "clipping_style": groups, "max_grad_norm": bounds}
    check_groups(net, x, y, groups, bounds, "Abadi", **options)


class Backwards(nn.Module):
    """Registers its layers in the opposite order to that in which they run."""

    def __init__(self):
        super().__init__()
        self.head, self.body = nn.Linear(6, CLASSES), nn.Linear(4, 6)

    def forward(self, x):
        return self.head(torch.tanh(self.body(x)))


@pytest.mark.parametrize("style", [*STYLES, ["head", "body"], ["head"]])
def test_the_order_of_registration_does_not_matter(style):
    torch.manual_seed(0)
    net, x = Backwards().double(), torch.randn(5, 4).double()
    y = torch.randint(0, CLASSES, (5,))
    own = style if isinstance(style, str) else "layer-wise"
    groups = by_style(net, "all-layer" if style == ["head"] else own)
    check_groups(net, x, y, groups, clipping_style=style)


@ENGINE
@pytest.mark.parametrize("style", [*STYLES, ["left", "unused", "head"]])
def test_one_sample_moves_the_sum_by_at_most_the_sensitivity(style, engine):
    net, x, y = case("branches")
    x = x * 1e3
    bounds = [0.2, 0.5, 0.1] if isinstance(style, list) else 0.7
    options = {"engine": engine, "clipping_style": style, "max_grad_norm": bounds}
    sensitivity = attached(net, **options)[0].sensitivity()
    net, x, y = case("branches")
    batches = [(x, y), (x[1:], y[1:])]
    whole, without = clipped_sums(net, batches, clipping_fn="Abadi", **options)
    moved = torch.cat([(whole[n] - without[n]).flatten() for n in whole]).norm().item()
    assert moved <= sensitivity * (1 + 1e-9)
    assert sensitivity == pytest.approx(math.sqrt(0.3) if bounds != 0.7 else 0.7)


def test_the_groups_of_one_huge_sample_use_all_of_the_sensitivity():
    net, x, y = case("mlp", 1)
    for style in STYLES:
        total = clipped_sum(
            net, x, y, clipping_style=style, clipping_fn="Abadi", max_grad_norm=1e-5
        )
        norm = torch.cat([g.flatten() for g in total.values()]).norm().item()
        assert norm == pytest.approx(1e-5, rel=1e-9)


@UNREAD
def test_the_sensitivity_scales_the_noise_and_is_on_the_receipt():
    net, x, _ = case("mlp")
    engine, optimizer = attached(
        net, clipping_style="layer-wise", max_grad_norm=[3.0, 4.0],
        noise_multiplier=2.0, batch_size=1,
    )  # fmt: skip
    drawn = []
    for _ in range(40):
        optimizer.zero_grad()
        (net(x[:1]) * 0.0).sum().backward()
        optimizer.step()
        drawn.append(torch.cat([p.grad.flatten() for p in net.parameters()]))
    std = torch.cat(drawn).std().item()
    assert std == pytest.approx(2.0 * 5.0, rel=0.07)
    assert engine.sensitivity() == pytest.approx(5.0)
    assert engine.sensitivity("replace_one") == pytest.approx(10.0)
    with pytest.raises(ConfigError, match="relation must be one of"):
        engine.sensitivity("swap")
    line = engine._state.ledger.lines()[0]
    assert (line["max_grad_norm"], line["noise_multiplier"]) == (5.0, 2.0)


def test_global_keeps_or_leaves_out():
    norms = torch.tensor([0.0, 1.0, 2.0, 2.0001, 1e9], dtype=torch.float64)
    expected = torch.tensor([1.0, 1, 1, 0, 0], dtype=torch.float64)
    assert torch.equal(global_factors(norms, 2.0), expected)
    # Z = 4 apart from R = 2: kept ones are scaled by R / Z
    wide = Clipper("global", [["a"]], [2.0], threshold_ratio=2.0)
    squared = {"a": norms.square()}
    own = wide.factors(squared, wide.norms(squared))["a"]
    torch.testing.assert_close(own, torch.tensor([0.5, 0.5, 0.5, 0.5, 0]).double())


def test_a_threshold_apart_reaches_the_sum():
    net, x, y = case("mlp")
    gradients = loop_gradients(net, x, y)
    norms = torch.cat([g.flatten(1) for g in gradients.values()], 1).norm(dim=1)
    z = 1.001 * norms.median().item()  # not a norm itself, which is known to rounding
    actual = clipped_sum(
        net, x, y, clipping_fn="global", max_grad_norm=0.1, clipping_threshold=z
    )
    kept = (norms <= z).double() * 0.1 / z
    expected = {n: torch.einsum("b,b...->...", kept, g) for n, g in gradients.items()}
    torch.testing.assert_close(actual, expected, **EXACT)


BAD_STYLES = {
    "unknown": ("layerwise", "must be one of all-layer"),
    "empty": ([], "must be one of all-layer"),
    "no such layer": (["0", "7"], "got '7'. Trainable are 0.weight"),
    "no trainable one": (["0", "1"], "got '1'"),
    "misses the first": (["2"], "0.weight, 0.bias would be in no group"),
    "twice": (["0", "0.weight"], "start two groups"),
    "in two groups": ([["0", "2"], ["2.bias"]], "2.bias is in two"),
    "left out": ([["0"], ["2.weight"]], "missing: 2.bias"),
    "mixed": (["0", ["2"]], "must be one of all-layer"),
}


@pytest.mark.parametrize(("style", "message"), BAD_STYLES.values(), ids=BAD_STYLES)
def test_other_styles_are_refused(style, message):
    net, _, _ = case("mlp")
    with pytest.raises(ConfigError, match=message) as caught:
        attached(net, clipping_style=style)
    assert caught.value.field == "clipping_style"


BAD_BOUNDS = {
    "too many": ({"max_grad_norm": [1.0, 2.0, 3.0]}, "max_grad_norm", "2 groups"),
    "none": ({"max_grad_norm": []}, "max_grad_norm", "above 0"),
    "negative": ({"max_grad_norm": [1.0, -1.0]}, "max_grad_norm", "above 0"),
    "threshold": ({"clipping_threshold": 2.0}, "clipping_threshold", "global"),
}


@pytest.mark.parametrize(("given", "field", "message"), BAD_BOUNDS.values())
def test_other_bounds_are_refused(given, field, message):
    net, _, _ = case("mlp")
    with pytest.raises(ConfigError, match=message) as caught:
        attached(net, clipping_style="layer-wise", **given)
    assert caught.value.field == field


@pytest.mark.parametrize("name", NETS)
@pytest.mark.parametrize("style", STYLES)
def test_every_trainable_parameter_is_in_one_block(name, style):
    net, _, _ = case(name)
    groups, by_parameter = clipping_groups(style, net)
    listed = [unit for group in groups for unit in group]
    assert len(set(listed)) == len(listed)
    names = {n for n, p in net.named_parameters() if p.requires_grad}
    layers = {name.rpartition(".")[0] for name in names}
    assert set(listed) == (names if by_parameter else layers)


def test_tied_weights_are_in_the_block_of_their_first_layer():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4)).double()
    net[2].weight = net[0].weight
    x, y = torch.randn(5, 4).double(), torch.randint(0, 4, (5,))
    for style in ("layer-wise", "param-wise"):
        check_groups(net, x, y, by_style(net, style), clipping_style=style)


def test_groups_are_clipped_in_an_ordinary_loop():
    net, x, y = case("tokens")
    engine, optimizer = attached(net, clipping_style="param-wise")
    step(net, optimizer, x, y)
    assert engine.steps_done == 1
    assert torch.isfinite(F.cross_entropy(net(x), y))
