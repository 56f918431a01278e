"""engine="extending": the noisy gradient is in param.grad when backward ends."""

import copy
import itertools

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsgd_explorer.dp.clipping.clipper import CLIPPING_FUNCTIONS
from dpsgd_explorer.dp.clipping.groups import CLIPPING_STYLES
from dpsgd_explorer.dp.engines.autograd_functions import FUNCTIONS, function_of
from dpsgd_explorer.dp.engines.extending import ExtendingEngine
from dpsgd_explorer.dp.layers import RULES, rule_for
from dpsgd_explorer.errors import PrivacyError
from tests.dp.backends.test_precision import Everything
from tests.dp.engines.test_engines_agree import EXACT
from tests.dp.layers.cases import rule_case
from tests.dp.layers.oracle import check_gradients
from tests.dp.nets import CLASSES, attached, backward, case, clipped_sum, data, linear

C = 0.3
KINDS = pytest.mark.parametrize("kind", RULES, ids=lambda kind: kind.__name__)
pytestmark = pytest.mark.filterwarnings(
    "ignore:Using padding='same' with even kernel lengths",  # torch's word on its copy
    "ignore:LSTM with projections",
    "ignore:Support for mismatched key_padding_mask",
)


def state(optimizer):
    hooks = {name: dict(v) for name, v in vars(optimizer).items() if "hooks" in name}
    return hooks, vars(optimizer).get("zero_grad"), optimizer.step.__name__


def test_the_optimizer_is_not_touched():
    net, x, y = case("mlp")
    optimizer = torch.optim.Adam(net.parameters())
    before = state(optimizer)
    engine, _ = attached(net, optimizer, engine="extending", noise_multiplier=1.0)
    assert state(optimizer) == before
    backward(net, x, y)
    assert engine.steps_done == 1
    weights = copy.deepcopy(net[0].weight)
    optimizer.step()
    assert not torch.equal(net[0].weight, weights)
    assert not any(hasattr(p, "private_grad") for p in net.parameters())


def test_another_optimizer_may_make_the_step():
    net, x, y = case("mlp")
    attached(net, engine="extending", noise_multiplier=1.0)
    backward(net, x, y)
    before = {name: p.detach() - 0.5 * p.grad for name, p in net.named_parameters()}
    torch.optim.SGD(net.parameters(), lr=0.5).step()
    torch.testing.assert_close(dict(net.named_parameters()), before)


def test_noise_is_that_of_hooks():
    """The same seed, the same batches: the same run, of any length."""
    runs = {}
    for engine in ("hooks", "extending"):
        net, x, y = case("convolutions")
        _, optimizer = attached(net, engine=engine, noise_multiplier=1.0)
        for _ in range(3):
            backward(net, x, y)
            optimizer.step()
            optimizer.zero_grad()
        runs[engine] = net.state_dict()
    torch.testing.assert_close(runs["extending"], runs["hooks"], **EXACT)


@pytest.mark.parametrize("engine", ["hooks", "extending"])
@pytest.mark.parametrize("cleared_by", ["optimizer", "module"])
def test_gradients_of_zeros_count_as_none(engine, cleared_by):
    """zero_grad(set_to_none=False) leaves a tensor of zeros in each gradient."""
    runs = []
    for set_to_none in (True, False):
        net, x, y = case("mlp")
        _, optimizer = attached(net, engine=engine, noise_multiplier=1.0)
        clear = {"optimizer": optimizer, "module": net}[cleared_by].zero_grad
        for _ in range(3):
            backward(net, x, y)
            optimizer.step()
            clear(set_to_none=set_to_none)
        runs.append(net.state_dict())
    torch.testing.assert_close(*runs, rtol=0, atol=0)


def test_a_gradient_that_is_partly_zero_is_still_there():
    net, x, y = case("mlp")
    _, optimizer = attached(net, engine="extending", noise_multiplier=1.0)
    backward(net, x, y)
    optimizer.step()
    first, *_, last = net.parameters()
    first.grad.zero_()
    last.grad[1:] = 0.0
    with pytest.raises(PrivacyError, match="zero_grad"):
        backward(net, x, y)
    assert first.grad is not None
    optimizer.zero_grad(set_to_none=False)
    backward(net, x, y)
    assert all(p.grad.any() for p in net.parameters())


def test_an_empty_batch_runs_a_backward_of_nobody():
    net, x, y = case("convolutions")
    engine, _ = attached(
        net, engine="extending", noise_multiplier=2.0, max_grad_norm=1.0, batch_size=1
    )
    outputs = net(x[:0])
    outputs.retain_grad()
    F.cross_entropy(outputs, y[:0]).backward()
    assert outputs.grad.shape == (0, CLASSES)
    assert engine.diagnostics.batch_size == 0
    assert engine.steps_done == 1
    noise = torch.cat([p.grad.flatten() for p in net.parameters()])
    assert noise.std().item() == pytest.approx(2.0, rel=0.2)


def test_a_batch_is_released_once_all_that_was_drawn_went_through():
    net = linear()
    engine, optimizer = attached(
        net, engine="extending", sampling="poisson", sample_size=40, batch_size=20
    )
    x, y = next(engine.poisson_loader(data()).all_epochs())
    for rows in (slice(0, 3), slice(3, 4)):
        backward(net, x[rows], y[rows])
        assert all(p.grad is None for p in net.parameters())
    backward(net, x[4:], y[4:])
    assert engine.steps_done == 1
    optimizer.step()
    whole = clipped_sum(linear(), x, y)
    own = {name: p.grad * 20 for name, p in net.named_parameters()}
    torch.testing.assert_close(own, whole, rtol=1e-5, atol=1e-6)


def penalty(net, x, y):
    (F.cross_entropy(net(x), y) + net[0].weight.square().sum()).backward()


def a_layer_alone(net, x, y):
    net[0](x).sum().backward()


@pytest.mark.parametrize("extra", [penalty, a_layer_alone])
def test_gradients_from_elsewhere_never_reach_the_optimizer(extra):
    net, x, y = case("mlp")
    _, optimizer = attached(net, engine="extending")
    backward(net, x, y)
    optimizer.zero_grad()
    before = copy.deepcopy(net.state_dict())
    with pytest.raises(PrivacyError, match="did not go through the engine"):
        extra(net, x, y)
    optimizer.step()
    torch.testing.assert_close(net.state_dict(), before, rtol=0, atol=0)


def test_detaching_gives_ordinary_gradients_back():
    net, x, y = case("tokens")
    engine, _ = attached(net, engine="extending")
    engine.detach()
    backward(net, x, y)
    plain, _, _ = case("tokens")
    backward(plain, x, y)
    for own, other in zip(net.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(own.grad, other.grad, **EXACT)


def test_autocast_is_left_to_torch():
    net, x, y = case("mlp")
    net, x = net.float(), x.float()
    sums = {}
    for engine in ("hooks", "extending"):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            sums[engine] = clipped_sum(net, x, y, engine=engine, max_grad_norm=C)
    torch.testing.assert_close(sums["extending"], sums["hooks"], rtol=0, atol=0)


STYLES = [*CLIPPING_STYLES, ["scale", "cell"]]


@pytest.mark.parametrize(
    ("style", "function"),
    [*zip(STYLES, itertools.cycle(CLIPPING_FUNCTIONS), strict=False)],
    ids=str,
)
def test_all_layers_in_all_styles_and_functions_agree(style, function):
    torch.manual_seed(0)
    net = Everything().double()
    x, y = torch.randn(3, 4, 8).double(), torch.randint(0, CLASSES, (3,))
    options = {"clipping_style": style, "clipping_fn": function, "max_grad_norm": 2.0}
    sums = {
        engine: clipped_sum(net, x, y, engine=engine, **options)
        for engine in ("microbatch", "hooks", "extending")
    }
    for engine in ("hooks", "extending"):
        torch.testing.assert_close(sums[engine], sums["microbatch"], **EXACT)


@KINDS
@settings(max_examples=5, deadline=None)
@given(data=st.data())
def test_every_layer_gives_the_gradients_of_one_backward_a_sample(kind, data):
    check_gradients(data.draw(rule_case(kind)), kind=ExtendingEngine)


@KINDS
@settings(max_examples=5, deadline=None)
@given(data=st.data())
def test_a_function_gives_torchs_output_and_input_gradient(kind, data):
    own = data.draw(rule_case(kind))
    layer, rule = own.net.layer, rule_for(own.net.layer)
    x = own.inputs[0]
    function = function_of(layer, rule, (x,), {})
    if function is None:
        assert type(rule) not in FUNCTIONS or getattr(layer, "padding_mode", "")
        return
    x = x.clone().requires_grad_(x.is_floating_point())
    expected = layer(x)
    actual, saved = function.forward(layer, x.detach())
    torch.testing.assert_close(actual, expected.detach(), **EXACT)
    if x.requires_grad:
        slope = torch.randn_like(expected)
        [back] = torch.autograd.grad(expected, x, slope)
        found = function.backward(layer, saved, slope)
        torch.testing.assert_close(found, back, **EXACT)
