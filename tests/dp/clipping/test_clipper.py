"""No sample moves the sum by more than C, whatever it holds."""

import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from dpsgd_explorer.dp.clipping.clipper import (
    CLIPPING_FUNCTIONS,
    STABILITY_CONSTANT,
    Clipper,
    abadi_factors,
    automatic_factors,
)
from dpsgd_explorer.dp.config import CHOICES
from dpsgd_explorer.experiments import vocabulary
from tests.dp.nets import (
    NETS,
    attached,
    case,
    clipped_sum,
    clipped_sums,
    step,
    total_norm,
)

C = 0.7
FUNCTION = pytest.mark.parametrize("function", CLIPPING_FUNCTIONS)
ENGINE = pytest.mark.parametrize("engine", CHOICES["engine"])


def difference(first, second):
    return total_norm({name: first[name] - second[name] for name in first})


def test_names_are_those_of_the_configuration():
    assert CHOICES["clipping_fn"].keys() == vocabulary.CLIPPING_FUNCTIONS.keys()
    assert CHOICES["clipping_style"].keys() == vocabulary.CLIPPING_STYLES.keys()
    assert CHOICES["clipping_mode"].keys() >= vocabulary.CLIPPING_MODES.keys()


def test_abadi_is_the_exact_minimum():
    norms = torch.tensor([0.0, 1e-30, C / 2, C, 2 * C, 1e30], dtype=torch.float64)
    expected = torch.tensor([1.0, 1.0, 1.0, 1.0, 0.5, C / 1e30], dtype=torch.float64)
    torch.testing.assert_close(abadi_factors(norms, C), expected, rtol=1e-15, atol=0)


def test_automatic_honours_the_bound():
    norms = torch.tensor([0.0, 0.09, 1.0, 1e9], dtype=torch.float64)
    expected = C / (norms + STABILITY_CONSTANT)
    torch.testing.assert_close(automatic_factors(norms, C), expected)


@given(st.floats(0, 1e18), st.floats(1e-6, 1e6), st.sampled_from([*CLIPPING_FUNCTIONS]))
def test_clipped_norm_never_exceeds_the_bound(norm, bound, function):
    norms = torch.tensor([norm], dtype=torch.float64)
    factor = CLIPPING_FUNCTIONS[function](norms, bound)
    assert norm * factor.item() <= bound * (1 + 1e-12)


def test_the_norm_is_taken_over_all_layers_together():
    squared = {"a": torch.tensor([9.0, 0.0]), "b": torch.tensor([16.0, 0.25])}
    clipper = Clipper("Abadi", [["a", "b"]], [1.0])
    factors = clipper.factors(squared, clipper.norms(squared))
    expected = torch.tensor([0.2, 1.0])
    assert factors.keys() == squared.keys()
    assert all(torch.equal(own, expected) for own in factors.values())


@pytest.mark.sweep(1)
@pytest.mark.usefixtures("checked_before")
@FUNCTION
@ENGINE
@pytest.mark.parametrize("name", NETS)
def test_one_sample_moves_the_sum_by_at_most_the_bound(name, engine, function):
    net, x, y = case(name)
    options = {"engine": engine, "clipping_fn": function, "max_grad_norm": C}
    rest = [torch.arange(len(x)) != i for i in range(len(x))]
    batches = [(x, y), *((x[others], y[others]) for others in rest)]
    whole, *fewer = clipped_sums(net, batches, **options)
    assert len(fewer) == len(x)
    for without in fewer:
        assert difference(whole, without) <= C * (1 + 1e-6)


@settings(max_examples=12, deadline=None)
@given(st.sampled_from([1, 2, 7, 64]), st.sampled_from([1.0, 1e3, 1e6]), st.data())
def test_a_huge_sample_moves_the_sum_by_exactly_the_bound(batch, scale, data):
    torch.manual_seed(data.draw(st.integers(0, 2**16)))
    net = nn.Sequential(nn.Linear(4, 3)).double()
    x, y = torch.randn(batch, 4).double(), torch.randint(0, 3, (batch,))
    x[0] = 100 * scale * torch.randn(4)
    y[0] = net(x[:1]).argmin()  # on the wrong side, so the gradient is about x
    options = {"clipping_fn": "Abadi", "max_grad_norm": C}
    whole, without = clipped_sums(net, [(x, y), (x[1:], y[1:])], **options)
    assert difference(whole, without) == pytest.approx(C, rel=1e-6)


@FUNCTION
def test_float32_keeps_the_bound_up_to_its_round_off(function):
    for name in NETS:
        net, x, y = case(name)
        net, x = net.float(), x.float() if x.is_floating_point() else x
        options = {"clipping_fn": function, "max_grad_norm": 1e-3}
        for one in clipped_sums(
            net, zip(x.split(1), y.split(1), strict=True), **options
        ):
            assert total_norm(one) <= 1e-3 * (1 + 1e-6)


BAD = {"inf": torch.inf, "nan": torch.nan, "overflow": 1e200}


@pytest.mark.sweep(2)
@pytest.mark.usefixtures("checked_before")
@FUNCTION
@ENGINE
@pytest.mark.parametrize("value", BAD.values(), ids=BAD)
def test_a_sample_that_is_not_finite_contributes_nothing(value, engine, function):
    net, x, y = case("mlp")
    x[2] = value
    if value == 1e200:  # the gradient is finite, its square is not
        net[0].weight.data.mul_(1e-200)
    others = torch.tensor([0, 1, 3, 4])
    options = {"engine": engine, "clipping_fn": function, "max_grad_norm": C}
    batches = [(x, y), (x[others], y[others])]
    poisoned, expected = clipped_sums(net, batches, **options)
    torch.testing.assert_close(poisoned, expected, rtol=1e-9, atol=1e-14)


@ENGINE
def test_left_out_samples_are_counted_and_still_get_noise(engine):
    net, x, y = case("convolutions")
    x[1:3] = torch.nan
    engine_, optimizer = attached(net, engine=engine, noise_multiplier=1.0)
    step(net, optimizer, x, y)
    assert engine_.diagnostics.non_finite == 2
    assert engine_.diagnostics.batch_size == len(x)
    for parameter in net.parameters():
        assert torch.isfinite(parameter).all()
        assert (parameter.grad != 0).all()


def test_all_samples_bad_is_a_step_of_pure_noise():
    net, x, y = case("mlp")
    expected = clipped_sum(net, x[:0], y[:0], noise_multiplier=1.0)
    actual = clipped_sum(net, x * torch.nan, y, noise_multiplier=1.0)
    torch.testing.assert_close(actual, expected)


def test_order_of_samples_does_not_matter():
    net, x, y = case("tokens")
    order = torch.tensor([3, 1, 4, 0, 2])
    first = clipped_sum(net, x, y, max_grad_norm=C)
    second = clipped_sum(copy.deepcopy(net), x[order], y[order], max_grad_norm=C)
    torch.testing.assert_close(first, second)
