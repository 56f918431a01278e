"""Attacks on signals whose answer is known."""

import numpy as np
import pytest
from scipy import stats

from dpsgd_explorer.audit.attacks.membership import (
    ATTACKS,
    Signals,
    _law,
    likelihood_ratio_scores,
    log_probability,
    loss_scores,
    relative_likelihood_scores,
)
from dpsgd_explorer.audit.attacks.roc import Roc
from dpsgd_explorer.errors import ConfigError

RECORDS, SHADOWS, POPULATION = 400, 8, 200


def signals(shift, seed=0):
    """Return signals of a model that raises a member's logit by ``shift``, and coins.

    Each record has a level of its own: some are easy for every model.
    """
    draw = np.random.default_rng(seed)
    level = draw.normal(0, 3, RECORDS)
    member = draw.random(RECORDS) < 0.5
    order = draw.random((SHADOWS, RECORDS)).argsort(axis=0)
    joined = order < SHADOWS // 2
    noise = draw.normal(size=(SHADOWS + 1, RECORDS))
    found = Signals(
        target=level + shift * member + noise[0],
        shadows=level + shift * joined + noise[1:],
        joined=joined,
        population=draw.normal(0, 3, POPULATION),
        population_shadows=draw.normal(0, 3, (SHADOWS, POPULATION)),
    )
    return found, member


def test_the_probability_is_that_of_the_logit():
    share = np.array([1e-9, 0.2, 0.5, 0.999])
    logits = np.log(share / (1 - share))
    np.testing.assert_allclose(log_probability(logits), np.log(share))
    assert log_probability(np.array([-800.0, 800.0])).tolist() == [-800.0, 0.0]


def test_the_loss_ranks_records_as_their_probability_does():
    found, _ = signals(2.0)
    assert loss_scores(found).argsort().tolist() == found.target.argsort().tolist()


def test_the_likelihood_ratio_is_that_of_both_normal_laws():
    logits = np.array([[1.0, 5.0], [3.0, 7.0], [-1.0, 0.0], [1.0, 4.0]])
    joined = np.array([[True, True], [True, True], [False, False], [False, False]])
    target = np.array([2.0, 0.0])
    one = Signals(target, logits, joined, np.zeros(1), np.zeros((4, 1)))
    inside, outside = stats.norm([2, 6], np.sqrt(2)), stats.norm([0, 2], np.sqrt(5))
    expected = inside.logpdf(target) - outside.logpdf(target)
    np.testing.assert_allclose(likelihood_ratio_scores(one), expected)


def test_the_likelihood_ratio_has_the_bits_of_scipy():
    found, _ = signals(1.0)
    inside = _law(found.shadows, found.joined)
    outside = _law(found.shadows, ~found.joined)
    expected = stats.norm.logpdf(found.target, *inside) - stats.norm.logpdf(
        found.target, *outside
    )
    assert np.array_equal(likelihood_ratio_scores(found), expected)


def test_a_record_is_compared_with_the_population_by_what_the_target_gained():
    joined = np.array([[True], [True], [False], [False]])
    found = Signals(
        target=np.array([0.0]),  # p = 1/2, twice what the shadows give it
        shadows=np.full((4, 1), np.log(1 / 3)),
        joined=joined,
        population=np.array([0.0, 0.0, 0.0, 0.0]),
        population_shadows=np.tile(np.log([1 / 4, 0.6, 1.0, 9.0]), (4, 1)),
    )
    # gains of the population: 5/2, 4/3, 1 and 5/9, of the record 2
    assert relative_likelihood_scores(found).tolist() == [0.75]
    assert relative_likelihood_scores(found, gamma=1.7).tolist() == [0.5]


@pytest.mark.parametrize("attack", ATTACKS)
def test_an_attack_finds_nothing_where_members_look_like_others(attack):
    found, member = signals(0.0)
    area = Roc.of(ATTACKS[attack](found), member).area
    count = RECORDS / 2  # six standard deviations of the area under chance
    assert abs(area - 0.5) < 6 * np.sqrt((2 * count + 1) / (12 * count**2))


def test_shadows_make_an_attack_stronger_than_the_loss_alone():
    found, member = signals(3.0)
    areas = {name: Roc.of(of(found), member).area for name, of in ATTACKS.items()}
    best = stats.norm.cdf(3 / np.sqrt(2))  # of two normal laws 3 apart
    assert areas["loss"] < 0.85 < areas["relative_likelihood"]
    assert areas["likelihood_ratio"] > best - 0.06


def test_shadows_that_agree_to_the_last_bit_leave_a_finite_score():
    found, _ = signals(2.0)
    same = Signals(
        found.target,
        np.zeros_like(found.shadows),
        found.joined,
        found.population,
        found.population_shadows,
    )
    assert np.isfinite(likelihood_ratio_scores(same)).all()


@pytest.mark.parametrize(
    ("change", "field", "says"),
    [
        ({"shadows": np.zeros((8, 3))}, "shadows", "shape (8, 400), got (8, 3)"),
        ({"joined": np.zeros((8, 400), bool)}, "joined", "got 0 to 0 of 8"),
        ({"joined": np.ones((8, 400), bool)}, "joined", "got 8 to 8 of 8"),
        ({"population_shadows": np.full((8, 200), np.nan)}, "population", "nan"),
    ],
    ids=["too few records", "in none", "in all", "not a number"],
)
def test_signals_that_do_not_fit_are_refused(change, field, says):
    found, _ = signals(1.0)
    with pytest.raises(ConfigError) as refusal:
        Signals(**(vars(found) | change))
    assert refusal.value.field.startswith(field)
    assert says in str(refusal.value)
