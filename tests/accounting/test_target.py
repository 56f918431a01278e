"""Searches for a target: what confirms them, and what is out of their reach."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from dpsgd_explorer.accounting import (
    Phase,
    noise_multiplier,
    noise_scale,
    sample_rate,
    steps,
)
from dpsgd_explorer.accounting.calibration import allocated_noise
from dpsgd_explorer.accounting.core.neighboring_relation import ADD_OR_REMOVE_ONE
from dpsgd_explorer.accounting.core.phase import AllocationPhase
from dpsgd_explorer.accounting.exact.accountant import ExactAccountant
from dpsgd_explorer.accounting.target import Target
from dpsgd_explorer.errors import AccountingError


@pytest.mark.parametrize(("most", "found"), [(10, 10), (9, 20), (0, 20)])
def test_what_the_last_one_does_not_confirm_it_searches_itself(most, found):
    searched = []

    def search(one):
        searched.append(one)
        return 10 * one

    def spent(one, setting):
        assert one == 2
        return setting

    both = SimpleNamespace(searchers=lambda _relation: (1, 2))
    assert Target(most, 1e-5, both, None, most).search(search, spent) == found
    assert searched == ([1] if found == 10 else [1, 2])


ZEROS = [0, 0.0, -0.0, np.float64(-0.0), np.float32(0)]


@pytest.mark.parametrize("zero", ZEROS)
@pytest.mark.parametrize("before", [[], [Phase(0.01, 1.0, 10)]])
def test_no_sample_rate_makes_up_for_missing_noise(zero, before):
    with pytest.raises(AccountingError, match="greater than 0, got") as caught:
        sample_rate(
            target_epsilon=1.0,
            noise_multiplier=zero,
            steps=100,
            delta=1e-5,
            before=before,
        )
    assert caught.value.field == "noise_multiplier"
    assert (
        steps(
            target_epsilon=1.0,
            sample_rate=0.01,
            noise_multiplier=zero,
            delta=1e-5,
            before=before,
        )
        == 0
    )


@pytest.mark.parametrize("zero", ZEROS)
@pytest.mark.parametrize(
    "search",
    [
        lambda before: noise_multiplier(
            target_epsilon=1.0, sample_rate=0.01, steps=10, delta=1e-5, before=before
        ),
        lambda before: noise_scale(
            target_epsilon=1.0, phases=[Phase(0.01, 1.0, 9)], delta=1e-5, before=before
        ),
        lambda before: sample_rate(
            target_epsilon=1.0,
            noise_multiplier=1.0,
            steps=10,
            delta=1e-5,
            before=before,
        ),
    ],
)
def test_nothing_makes_up_for_earlier_steps_without_noise(search, zero):
    with pytest.raises(AccountingError, match="earlier steps must have noise"):
        search([Phase(0.01, zero, 1)])
    assert search([Phase(0.01, zero, 0)]) == pytest.approx(search([]))


@pytest.mark.parametrize("noise", [1e-100, 1e-30, 1e-3])
def test_a_target_out_of_reach_is_never_told_to_be_infinite(noise):
    with pytest.raises(AccountingError) as caught:
        sample_rate(
            target_epsilon=1.0, noise_multiplier=noise, steps=10**6, delta=1e-15
        )
    assert "Infinity" not in str(caught.value)


class Counting(ExactAccountant):
    """An exact accountant with small grids, which counts its answers."""

    def __init__(self):
        super().__init__(max_points=1 << 12)
        self.answers = 0

    def searchers(self, relation):
        return (self,)

    def epsilons(self, *arguments):
        self.answers += 1
        return super().epsilons(*arguments)


def test_a_search_ends_soon_where_the_bound_of_random_allocation_jumps():
    """Each answer can take seconds; below the jump no grid is fine enough."""
    accountant = Counting()
    target = replace(
        Target.of(3.0, 1e-5, "exact", ADD_OR_REMOVE_ONE), accountant=accountant
    )
    noise = allocated_noise(target, 1000, 1000)
    answers = accountant.answers

    def spent(noise):
        run = AllocationPhase(slots=1000, noise_multiplier=noise, steps=1000)
        return target.spent(accountant, [run])

    assert spent(noise) < 2.9
    assert spent(noise * 0.997) > 3.1
    assert answers < 30
