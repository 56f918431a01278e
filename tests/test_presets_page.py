"""The searches for settings: every trial is recorded, and what all spend is counted."""

from math import prod

import pytest

from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.web.recorded.files import recording
from tools.record.tuning import SEARCHES
from tools.write_presets_page import RECORDED, spent_by_all

FOUND = recording(RECORDED)["searches"]
# Accuracies that the best settings reach on the mean of their seeds.
BARS = {
    "adult": 0.855,
    "fashion-3": 0.885,
    "fashion-1": 0.875,
    "mnist-8": 0.985,
    "mnist-3": 0.98,
    "mnist-1": 0.975,
    "mnist-cnn": 0.965,
    "names": 0.95,
    "sentences": 0.89,
}


def test_every_search_has_been_carried_out():
    assert FOUND.keys() == SEARCHES.keys()


@pytest.mark.parametrize("name", FOUND)
def test_every_combination_is_a_trial(name):
    base, tried = SEARCHES[name]
    assert FOUND[name]["base"] == base
    tries = [tuple(trial["settings"].values()) for trial in FOUND[name]["trials"]]
    assert len(set(tries)) == len(tries) == prod(map(len, tried.values()))


@pytest.mark.parametrize("name", FOUND)
def test_looking_at_all_trials_spends_more_than_one(name):
    search = FOUND[name]
    one = TrainingConfig.parse(search["base"]).plan.epsilon()
    assert one < spent_by_all(search) < len(search["trials"]) * one


@pytest.mark.parametrize("name", BARS)
def test_the_best_settings_reach_their_accuracy_on_all_seeds(name):
    search = FOUND[name]
    best = max(trial["test_accuracy"] for trial in search["trials"])
    runs = [best, *search["again"]]
    assert sum(runs) / len(runs) >= BARS[name]
