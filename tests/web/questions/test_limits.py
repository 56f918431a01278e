"""A question that would take long is refused before any work."""

import numpy as np
import pytest

from dpsgd_explorer.accounting import ACCOUNTANTS, NeighboringRelation, Phase
from dpsgd_explorer.errors import AccountingError
from dpsgd_explorer.web.questions import looked_at, odds, together
from dpsgd_explorer.web.questions.limits import (
    MOST_ANSWERS,
    MOST_PHASES,
    MOST_WORK,
    check_size,
    work,
)

REPLACED = NeighboringRelation.REPLACE_ONE
ADDED = NeighboringRelation.ADD_OR_REMOVE_ONE


def of_different_noise(count):
    return [Phase(0.01, float(x), 1) for x in np.linspace(5, 50, count)]


def several(count):
    return [Phase(0.01, 1 + i / count, 100) for i in range(count)]


def of_low_noise(count):
    low = [Phase(0.01, 0.2 + 0.1 * i / count, 2) for i in range(count - 1)]
    return [Phase(0.01, 1.0, 2), *low]


@pytest.mark.parametrize("name", [*ACCOUNTANTS, "all"])
def test_more_different_phases_than_are_answered_at_once_are_refused(name):
    with pytest.raises(AccountingError, match="different pairs") as caught:
        check_size(name, of_different_noise(MOST_PHASES + 1))
    assert caught.value.field == "phases"


def test_phases_with_the_same_settings_count_once():
    check_size("exact", several(20) * (MOST_PHASES // 20 + 1))


@pytest.mark.parametrize("make", [several, of_low_noise])
def test_many_answers_for_many_phases_are_refused(make):
    each = work("exact", make(100), 100, ADDED) / 100
    count = int(MOST_WORK / each)
    check_size("exact", make(count), answers=100)
    with pytest.raises(AccountingError, match=f"got {count + 2:,}") as caught:
        check_size("exact", make(count + 2), answers=100)
    assert caught.value.field == "phases"


@pytest.mark.parametrize("name", ACCOUNTANTS)
def test_more_numbers_of_steps_than_are_answered_at_once_are_refused(name):
    with pytest.raises(AccountingError, match="got 50,001") as caught:
        check_size(name, [Phase(0.01, 1.0, 50_001)], answers=MOST_ANSWERS + 1)
    assert caught.value.field == "steps"


@pytest.mark.parametrize("name", ["rdp", "moments"])
def test_replaced_records_take_more_work(name):
    phases = of_different_noise(600)
    check_size(name, phases)
    with pytest.raises(AccountingError, match="different pairs"):
        check_size(name, phases, REPLACED)


def test_what_composes_many_runs_refuses_too_many_phases():
    many = of_different_noise(MOST_PHASES + 1)
    with pytest.raises(AccountingError, match="different pairs"):
        odds.run_accuracy(tuple(many))
    released = tuple((p, 1) for p in many)
    with pytest.raises(AccountingError, match="different pairs"):
        together._composed(released, 1e-5, "poisson")


def test_steps_of_too_many_kinds_are_counted_with_noise_rounded_down():
    many = of_different_noise(MOST_PHASES + 1)
    assert looked_at.composed(tuple(many), 1e-5).status == "bound"
