"""A bound that follows a quantile of the norms, with noise of its own, accounted."""

import math

import pytest
import torch
from torch import nn

from dpsgd_explorer.accounting import Plan
from dpsgd_explorer.dp.clipping.adaptive import (
    AdaptiveBound,
    AdaptiveClipping,
)
from dpsgd_explorer.dp.noise.base import NoisePlan
from dpsgd_explorer.dp.noise.seeded import SeededNoise
from dpsgd_explorer.errors import ConfigError, PrivacyError
from tests.dp.nets import UNREAD, attached, data, linear, private_run

PLAN = Plan.create(
    sample_size=4000, expected_batch_size=400, steps=50, noise_multiplier=1.0,
    delta=1e-5, accountant="rdp",
)  # fmt: skip


def adaptive(**options):
    net = linear()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.0)
    return private_run(
        net, optimizer, data(), 8, clipping_fn="Abadi", accounting_mode="rdp",
        clipping_schedule=AdaptiveClipping(), **options,
    )  # fmt: skip


@pytest.mark.parametrize("quantile", [0.25, 0.5, 0.9])
@pytest.mark.parametrize("start", [0.01, 100.0])
def test_the_bound_reaches_the_quantile(quantile, start):
    generator = torch.Generator().manual_seed(0)
    norms = torch.rand(400, generator=generator, dtype=torch.float64) + 0.5
    bound = AdaptiveBound(AdaptiveClipping(quantile), PLAN)
    noise = SeededNoise(1)
    for step in range(400):
        bound.observe(norms, start * bound.factor(step), noise)
    share = (norms <= start * bound.factor(400)).double().mean().item()
    assert share == pytest.approx(quantile, abs=0.08)


def test_one_record_moves_the_count_by_a_half():
    """Measured on the update itself, without noise."""
    settings = AdaptiveClipping(0.5, learning_rate=1.0)
    norms = torch.linspace(0.1, 2.0, 20).double()
    moves = []
    for rows in (norms, norms[1:], norms[:-1], torch.cat([norms, norms[:1] / 0])):
        bound = AdaptiveBound(settings, PLAN)
        bound.observe(rows, 1.0, None)
        moves.append(-math.log(bound.factor(1)) * 400)
    differences = [abs(move - moves[0]) for move in moves[1:]]
    assert differences == pytest.approx([0.5] * 3)


def test_count_and_gradient_together_have_the_planned_noise():
    engine = adaptive()
    assert engine.get_epsilon() == engine.plan.epsilon(8)
    for line in engine.receipt()["done"]:
        both = line["noise_multiplier"] ** -2 + line["count_noise_multiplier"] ** -2
        assert both**-0.5 == pytest.approx(engine.plan.noise_multiplier)
        assert line["noise_multiplier"] > engine.plan.noise_multiplier


def test_noise_on_the_count_is_what_is_said():
    settings = AdaptiveClipping(learning_rate=1.0, count_noise=30.0)
    noise, norms = SeededNoise(3), torch.ones(400).double()
    seen = []
    for _ in range(2000):
        bound = AdaptiveBound(settings, PLAN)
        assert bound.observe(norms, 2.0, noise) == pytest.approx(60.0)
        seen.append(-math.log(bound.factor(1)) * 400)
    values = torch.tensor(seen)
    assert values.std().item() == pytest.approx(30.0, rel=0.06)
    assert values.mean().item() == pytest.approx(200.0, abs=3.0)


def test_counts_without_their_noise_give_no_epsilon(monkeypatch):
    class Silent:
        def add_to(self, values, deviation, divisor):
            return None

    def observe(bound, norms, max_grad_norm, noise, ranks):
        own(bound, norms, max_grad_norm, Silent(), ranks)
        return 0.0

    own = AdaptiveBound.observe
    monkeypatch.setattr(AdaptiveBound, "observe", observe)
    with pytest.raises(PrivacyError, match="count_noise_multiplier was 0"):
        adaptive().get_epsilon()


@UNREAD
def test_a_noisy_gradient_has_more_noise_beside_a_count():
    torch.manual_seed(0)
    net = nn.Linear(100, 100)
    _, optimizer = attached(
        net, noise_multiplier=1.0, max_grad_norm=1.0, batch_size=1,
        clipping_fn="Abadi", clipping_schedule=AdaptiveClipping(count_noise=0.75),
    )  # fmt: skip
    (net(torch.ones(1, 100)) * 0.0).sum().backward()
    optimizer.step()
    noise = torch.cat([p.grad.flatten() for p in net.parameters()])
    expected = 1 / math.sqrt(1 - 1.5**-2)
    assert noise.std().item() == pytest.approx(expected, rel=0.05)
    plan = NoisePlan(noise_multiplier=1.0, sensitivity=1.0, divisor=1, count_noise=1.5)
    assert plan.noise_multiplier_at(0) == pytest.approx(expected)


def test_a_resumed_run_goes_on_with_its_bound():
    first = adaptive()
    net = linear()
    second, _ = attached(
        net, sampling="poisson", sample_size=40, batch_size=8, steps=8, seed=5,
        noise_multiplier=1.0, clipping_fn="Abadi", accounting_mode="rdp",
        clipping_schedule=AdaptiveClipping(),
    )  # fmt: skip
    second.load_state_dict(first.state_dict())
    assert second.sensitivity() == first.sensitivity() != 1.0
    assert second.receipt() == first.receipt()


BAD = {
    "quantile": (lambda: AdaptiveClipping(1.0), "between 0 and 1"),
    "rate": (lambda: AdaptiveClipping(learning_rate=-1.0), "above 0"),
    "noise": (
        lambda: AdaptiveBound(AdaptiveClipping(count_noise=0.4), PLAN),
        "above noise_multiplier / 2",
    ),
    "function": (
        lambda: attached(linear(), clipping_schedule=AdaptiveClipping()),
        "clipping_fn must be 'Abadi'",
    ),
    "style": (
        lambda: attached(
            linear(),
            clipping_fn="Abadi",
            clipping_style="param-wise",
            clipping_schedule=AdaptiveClipping(),
        ),
        "clipping_style 'all-layer'",
    ),
}


@pytest.mark.parametrize(("make", "message"), BAD.values(), ids=BAD)
def test_what_cannot_be_is_refused(make, message):
    with pytest.raises(ConfigError, match=message):
        make()


@pytest.mark.parametrize("norm", [0.0, 1e30])
def test_no_learning_rate_drives_the_bound_out_of_floats(norm):
    bound = AdaptiveBound(AdaptiveClipping(learning_rate=1e300), PLAN)
    for step in range(40):
        bound.observe(torch.full((10,), norm), 1.0, SeededNoise(step))
        assert 0 < torch.tensor(bound.factor(step + 1)) < math.inf
