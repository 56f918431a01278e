"""A preview is quick, never too small, and ends where a calibration ended."""

import numpy as np
import pytest

from dpsgd_explorer.accounting import ACCOUNTANTS, Phase, noise_multiplier
from dpsgd_explorer.accounting.lattice import Lattice
from dpsgd_explorer.accounting.previews import NARROWED, preview

SMALL = [(7 / 32_561, 0.4071, 300), (64 / 60_000, 0.5337, 20), (1 / 60_000, 1.1, 300)]
USUAL = [(2048 / 32_561, 4.2135, 300), (4096 / 60_000, 1.8624, 300), (1.0, 8.0, 40)]


def steps_of(count):
    return sorted({-(-count * i // 100) for i in range(101)})


@pytest.mark.parametrize("setting", [*SMALL, *USUAL])
def test_a_preview_is_never_below_the_truth_and_rises(setting):
    run = Phase(*setting)
    found = preview(run, steps_of(run.steps), 1e-5)
    assert found.steps[-1] == run.steps
    assert set(found.steps) <= set(steps_of(run.steps))
    assert np.all(np.diff(found.epsilons) >= 0)
    truth = ACCOUNTANTS["exact"].bounds([run], found.steps, 1e-5)
    assert np.all(found.epsilons >= truth.lower)
    assert found.spent.lower <= truth.upper[-1]
    assert found.epsilons[-1] == found.spent.value == found.spent.upper


@pytest.mark.parametrize("setting", USUAL)
def test_a_usual_plan_has_all_of_its_points(setting):
    run = Phase(*setting)
    assert len(preview(run, steps_of(run.steps), 1e-5).steps) > 0.9 * len(
        steps_of(run.steps)
    )


@pytest.mark.parametrize("setting", SMALL)
def test_discrete_losses_serve_few_steps_of_a_preview(setting, monkeypatch):
    asked, tails = [], Lattice.tails

    def counted(lattice, counts):
        asked.append(lattice.points)
        return tails(lattice, counts)

    monkeypatch.setattr(Lattice, "tails", counted)
    run = Phase(*setting)
    found = preview(run, steps_of(run.steps), 1e-5)
    assert 0 < len(asked) <= 2 * 2 * (NARROWED + 1)  # two windows, two directions
    assert max(asked) <= 1 << 13
    assert len(found.steps) >= NARROWED


@pytest.mark.parametrize("batch", [7, 64, 2048])
def test_a_target_that_is_met_is_met_in_the_preview(batch):
    noise = noise_multiplier(3.0, batch / 32_561, 300, 1e-5)
    found = preview(Phase(batch / 32_561, noise, 300), steps_of(300), 1e-5)
    assert found.spent.value <= 3.0
    assert max(found.epsilons) <= 3.0


@pytest.mark.parametrize("name", sorted(set(ACCOUNTANTS) - {"zcdp"}))
def test_every_accountant_has_a_preview(name):
    run = Phase(0.01, 1.0, 50)
    found = preview(run, [0, 25, 50], 1e-5, name)
    full = ACCOUNTANTS[name].epsilons([run], found.steps, 1e-5)
    assert found.epsilons == pytest.approx(full, rel=1e-3)


def test_without_noise_or_steps():
    assert preview(Phase(0.01, 0.0, 9), [0, 9], 1e-5).epsilons == [0.0, np.inf]
    assert preview(Phase(0.01, 1.0, 0), [0], 1e-5).epsilons == [0.0]
