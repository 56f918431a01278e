"""The membership game: records and scores of a recorded attack, below its limit."""

import numpy as np
import pytest
from scipy import stats

from dpsgd_explorer.accounting.trade_off_curves import trade_off_intervals
from dpsgd_explorer.experiments.attack_config import POOL, AttackConfig
from dpsgd_explorer.training.datasets import registry
from dpsgd_explorer.web.hub.widgets.membership_game import widget as game

PRIVATE = (1, 2, 3)  # places of the private models


def test_the_limit_is_the_best_balanced_guess_on_the_exact_curve():
    stored = game.stored()
    config = AttackConfig.parse(stored["config"])
    rates = np.linspace(0, 1, 401)
    for place in PRIVATE:
        epsilon = stored["models"][place]["epsilon"]
        plan = config.model_copy(update={"target_epsilon": round(epsilon, 6)}).plan
        hits = [one.value for one in trade_off_intervals(plan.phases, rates.tolist())]
        best, most = (
            float(((1 + np.array(hits) - rates) / 2).max()),
            game.limits(place).run,
        )
        assert best <= most + 1e-6
        assert best == pytest.approx(most, abs=1e-5)
        shown = game.data()["models"][place]
        assert most <= shown["most"] <= most + 1.1e-4
        assert shown["limits"] == str(game.limits(place))


def test_without_privacy_the_attacker_passes_what_epsilon_allows():
    ordinary, *private = game.stored()["models"]
    assert [round(model["epsilon"], 3) for model in private] == [1, 2, 4]
    assert ordinary["right"] > game.limits(2).run + 0.05
    assert all(
        game.stored()["models"][i]["right"] < game.limits(i).run for i in PRIVATE
    )


def test_records_are_those_of_the_pool_in_sixteen_shades():
    found = game.stored()
    train, _ = registry.load(AttackConfig.parse(found["config"]).dataset)
    assert len(set(found["places"])) == len(found["pictures"]) > 2 * game.ROUNDS
    for place, label, shades in zip(
        found["places"], found["labels"], found["pictures"], strict=True
    ):
        assert 0 <= place < POOL
        assert label == int(train.targets[place])
        pixels = np.array([int(shade, 16) for shade in shades]) / 15
        apart = np.abs(pixels - train.inputs[place].flatten().numpy())
        assert apart.max() <= 0.5 / 15 + 1e-6


@pytest.mark.parametrize("place", range(4))
def test_the_attacker_says_what_its_score_says(place):
    shown = game.data()["models"][place]
    model = game.stored()["models"][place]
    assert shown["says_in"] == [score > 0 for score in model["scores"]]
    for name, key in (("logits", "sure"), ("had_it", "had_it")):
        for logit, words in zip(model[name], shown[key], strict=True):
            share = 1 / (1 + np.exp(-logit))
            assert 0 < float(words) < 100
            rest = min(share, 1 - share)
            assert float(words) / 100 == pytest.approx(share, abs=0.06 * rest + 6e-4)


def test_chance_is_that_of_a_coin():
    law = stats.binom(game.ROUNDS, 0.5)
    expected = [100 * float(1 - law.cdf(k - 1)) for k in range(game.ROUNDS + 1)]
    assert list(map(float, game.data()["coin"])) == pytest.approx(expected, abs=0.051)


def test_games_can_be_dealt_in_halves_from_what_was_recorded():
    joined = game.stored()["joined"]
    assert game.ROUNDS % 2 == 0
    assert min(sum(joined), len(joined) - sum(joined)) > game.ROUNDS // 2


@pytest.mark.parametrize("place", range(4))
def test_shares_have_their_interval_and_models_their_accuracy(place):
    model, shown = game.stored()["models"][place], game.data()["models"][place]
    count = round(POOL * model["right"])
    assert model["right"] == pytest.approx(count / POOL)
    exact = stats.binomtest(count, POOL).proportion_ci(0.95, method="exact")
    low, high = (float(end) for end in shown["interval"].split(" to "))
    assert low <= 100 * exact.low < low + 0.11
    assert high - 0.11 < 100 * exact.high <= high
    assert float(shown["accuracy"]) == pytest.approx(
        100 * model["test_accuracy"], abs=0.06
    )
    page = game.picture()
    assert page.rows[place][1:3] == (shown["right"], shown["interval"])


def test_protection_is_not_shown_without_its_price():
    ordinary, *private = (m["test_accuracy"] for m in game.stored()["models"])
    assert private == sorted(private)
    assert ordinary > private[-1]
