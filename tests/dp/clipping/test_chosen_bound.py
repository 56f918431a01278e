"""A clipping bound that is chosen between two steps."""

import math

import pytest
import torch
from torch import nn

from dpsgd_explorer.dp import AdaptiveClipping, PrivacyEngine, schedules
from dpsgd_explorer.errors import ConfigError, PrivacyError


def trained(choose_at=None, *, between=None, **options):
    """Take four steps; return the engine and the noisy gradient of each step."""
    choose_at = choose_at or {}
    torch.manual_seed(0)
    module = nn.Linear(3, 2)
    settings = {"noise_multiplier": 1.0, "clipping_fn": "Abadi", "steps": 4} | options
    engine = PrivacyEngine(
        module, batch_size=8, sample_size=16, noise="seeded", seed=3, **settings
    )
    optimizer = torch.optim.SGD(module.parameters(), lr=0.0)
    engine.attach(optimizer)
    data = (100 * torch.randn(16, 3), torch.randint(2, (16,)))
    gradients = []
    for step, (x, y) in enumerate(engine.poisson_loader(data).all_epochs(), start=1):
        nn.functional.cross_entropy(module(x), y).backward()
        if between is not None and step == between:
            engine.choose_max_grad_norm(7.0)
        optimizer.step()
        gradients.append(torch.cat([p.grad.flatten() for p in module.parameters()]))
        optimizer.zero_grad()
        if step in choose_at:
            engine.choose_max_grad_norm(choose_at[step])
    return engine, gradients


def test_clipping_and_noise_follow_the_choice_and_epsilon_does_not():
    plain, before = trained()
    chosen, after = trained({2: 0.25})
    assert torch.equal(before[1], after[1])
    for i in (2, 3):  # all are clipped, so the noisy sum is a multiple of the bound
        torch.testing.assert_close(after[i], 0.25 * before[i])
    assert chosen.get_epsilon() == plain.get_epsilon()
    lines = [line["max_grad_norm"] for line in chosen.receipt()["done"]]
    assert lines == [1.0, 0.25]


def test_a_choice_multiplies_the_schedule():
    halved, _ = trained({1: 0.5}, clipping_schedule=schedules.Exponential(0.5))
    assert halved.sensitivity() == 0.5 * 0.5**4


def test_a_choice_within_a_step_is_refused():
    """Clipped at one bound, the batch would get the noise of another."""
    with pytest.raises(PrivacyError, match="get noise for another"):
        trained(between=1)


def test_the_state_holds_the_choices():
    first, _ = trained({1: 0.5, 3: 2.0})
    again, _ = trained({1: 9.0})
    fresh = PrivacyEngine(
        again.module, plan=first.plan, noise="seeded", seed=3, clipping_fn="Abadi"
    )
    fresh.load_state_dict(first.state_dict())
    assert fresh.sensitivity() == 2.0


@pytest.mark.parametrize("bound", [0.0, -1.0, math.inf, math.nan])
def test_what_is_no_bound_is_refused(bound):
    with pytest.raises(ConfigError) as refused:
        trained({1: bound})
    assert refused.value.field == "max_grad_norm"


def test_a_bound_that_follows_the_gradients_is_not_chosen():
    with pytest.raises(ConfigError, match="adapts it to the gradients"):
        trained({1: 2.0}, clipping_schedule=AdaptiveClipping())
