"""A preview is quick, never too small, and ends where a calibration ended."""

import numpy as np
import pytest

from dpsgd_explorer.accounting import ACCOUNTANTS, Phase, epsilon
from dpsgd_explorer.accounting.calibration import noise_multiplier, steps_for
from dpsgd_explorer.accounting.calibration import steps as most_steps
from dpsgd_explorer.accounting.core.intervals import Interval
from dpsgd_explorer.accounting.exact.accountant import ExactAccountant
from dpsgd_explorer.accounting.exact.discretized_pld import DiscretizedPlds
from dpsgd_explorer.accounting.plan import noise_within
from dpsgd_explorer.accounting.queries import epsilon_interval
from dpsgd_explorer.web.questions.previews import PREVIEW_ROWS, preview
from dpsgd_explorer.web.questions.quick_searches import (
    QuickTarget,
)
from tests.accounting.curves import arrays
from tests.in_order import in_order

SMALL = [(7 / 32_561, 0.4071, 300), (64 / 60_000, 0.5337, 20), (1 / 60_000, 1.1, 300)]
USUAL = [(2048 / 32_561, 4.2135, 300), (4096 / 60_000, 1.8624, 300), (1.0, 8.0, 40)]


def quick_target(epsilon):
    return QuickTarget.of(epsilon, 1e-5, "exact", "add_or_remove_one")


def steps_of(count):
    return sorted({-(-count * i // 100) for i in range(101)})


@pytest.mark.parametrize("setting", [*SMALL, *USUAL])
def test_a_preview_is_never_below_the_truth_and_rises(setting):
    run = Phase(*setting)
    found = preview([run], steps_of(run.steps), 1e-5)
    assert found.steps[-1] == run.steps
    assert set(found.steps) <= set(steps_of(run.steps))
    assert np.all(np.diff(found.epsilons) >= 0)
    truth = arrays(ACCOUNTANTS["exact"].bounds([run], found.steps, 1e-5))
    assert np.all(found.epsilons >= truth.lower)
    assert found.spent.lower <= truth.upper[-1]
    assert found.epsilons[-1] == found.spent.value == found.spent.upper


@pytest.mark.parametrize("setting", USUAL)
def test_a_usual_plan_has_all_of_its_points(setting):
    run = Phase(*setting)
    assert len(preview([run], steps_of(run.steps), 1e-5).steps) > 0.9 * len(
        steps_of(run.steps)
    )


@pytest.mark.parametrize("setting", SMALL)
def test_discrete_losses_serve_few_steps_of_a_preview(setting, monkeypatch):
    asked, tails = [], DiscretizedPlds._tail

    def counted(plds, *terms):
        asked.append(plds.points)
        return tails(plds, *terms)

    monkeypatch.setattr(DiscretizedPlds, "_tail", counted)
    run = Phase(*setting)
    found = preview([run], steps_of(run.steps), 1e-5)
    assert 0 < len(asked) <= 2 * 2 * (PREVIEW_ROWS + 1)  # two windows, two directions
    assert max(asked) <= 1 << 13
    assert len(found.steps) >= PREVIEW_ROWS


@pytest.mark.parametrize("quick", [False, True])
def test_a_small_contour_is_not_tried_for_each_step_where_it_serves_none(
    quick, monkeypatch
):
    tried, composed = [], ExactAccountant._composed_epsilons

    def counted(accountant, run, delta):
        if accountant.refinements == 0:
            tried.append(len(run))
        return composed(accountant, run, delta)

    monkeypatch.setattr(ExactAccountant, "_composed_epsilons", counted)
    for setting, few in ((SMALL[0], True), (USUAL[0], False)):
        tried.clear()
        found = preview([Phase(*setting)], steps_of(300), 1e-5, quick=quick)
        assert (sum(tried) == 1) is few
        assert found.epsilons[0] == 0
        assert np.isfinite(found.epsilons).all()


@pytest.mark.parametrize("batch", [7, 64, 2048])
def test_a_target_that_is_met_is_met_in_the_preview(batch):
    noise = noise_multiplier(
        target_epsilon=3.0, sample_rate=batch / 32_561, steps=300, delta=1e-5
    )
    found = preview([Phase(batch / 32_561, noise, 300)], steps_of(300), 1e-5)
    assert found.spent.value <= 3.0
    assert max(found.epsilons) <= 3.0


@pytest.mark.parametrize("name", sorted(set(ACCOUNTANTS) - {"zcdp"}))
def test_every_accountant_has_a_preview(name):
    run = Phase(0.01, 1.0, 50)
    found = preview([run], [0, 25, 50], 1e-5, name)
    full = ACCOUNTANTS[name].epsilons([run], found.steps, 1e-5)
    assert found.epsilons == pytest.approx(full, rel=1e-3)


def test_without_noise_or_steps():
    assert preview([Phase(0.01, 0.0, 9)], [0, 9], 1e-5).epsilons == [0.0, np.inf]
    assert preview([Phase(0.01, 1.0, 0)], [0], 1e-5).epsilons == [0.0]


@pytest.mark.parametrize("setting", [*SMALL, *USUAL])
def test_a_quick_preview_is_never_below_the_full_one(setting):
    run = Phase(*setting)
    quick = preview([run], steps_of(run.steps), 1e-5, quick=True)
    truth = arrays(ACCOUNTANTS["exact"].bounds([run], quick.steps, 1e-5))
    assert np.all(quick.epsilons >= truth.lower)
    assert quick.spent.value >= truth.lower[-1]
    full = preview([run], steps_of(run.steps), 1e-5)
    assert quick.spent.value >= full.spent.value * (1 - 1e-9)
    assert len(quick.steps) <= len(full.steps)


TARGETS = [(1, 20, 0.5), (7, 300, 8.0), (64, 20, 0.5), (1, 3000, 3.0), (2048, 300, 3.0)]


@pytest.mark.parametrize(("batch", "steps", "target"), TARGETS)
def test_quickly_found_noise_keeps_the_target_and_is_never_less(batch, steps, target):
    asked = (target, batch / 32_561, steps, 1e-5)
    quick = noise_within(quick_target(target), batch / 32_561, steps, None)
    least = in_order(noise_multiplier, *asked)
    assert least * (1 - 1e-9) <= quick <= least * (1 + 1e-3)
    spent = arrays(
        ACCOUNTANTS["exact"].bounds([Phase(asked[1], quick, steps)], [steps], 1e-5)
    )
    assert spent.upper <= target


@pytest.mark.parametrize("setting", [*SMALL, *USUAL[:2]])
def test_quickly_found_steps_keep_the_target(setting):
    rate, noise, steps = setting
    target = 0.8 * preview([Phase(*setting)], [steps], 1e-5).spent.value
    quick = steps_for(quick_target(target), Phase(rate, noise, 10**9), steps)
    assert (
        quick
        <= most_steps(
            target_epsilon=target,
            sample_rate=rate,
            noise_multiplier=noise,
            delta=1e-5,
            most=steps,
        )
        <= steps
    )
    assert (
        epsilon(sample_rate=rate, noise_multiplier=noise, steps=quick, delta=1e-5)
        <= target
    )


@pytest.mark.parametrize("accountant", ["exact", "rdp"])
@pytest.mark.parametrize("rate", [7 / 32_561, 0.1])
def test_what_is_known_of_all_steps_ends_a_preview(accountant, rate):
    most = 20.0
    run, steps = Phase(rate, 0.9, 300), steps_of(300)
    computed = preview([run], steps, 1e-5, accountant, quick=True)
    known = preview([run], steps, 1e-5, accountant, quick=True, most=most)
    assert computed.spent.value < most
    assert known.spent == Interval.one_sided(most)
    assert known.epsilons[-1] == most
    assert known.steps[-1] == 300
    by_step = dict(zip(computed.steps, computed.epsilons, strict=True))
    for step, spent in zip(known.steps[:-1], known.epsilons, strict=False):
        truth = epsilon_interval([Phase(rate, 0.9, step)], 1e-5, accountant)
        least = truth.value if truth.lower is None else truth.lower
        assert spent >= least * (1 - 1e-9)
        assert spent >= by_step.get(step, 0.0)
