"""The comparisons on docs/how-to/correlated-noise.md follow from their recording."""

from statistics import mean

import pytest
from scipy.stats import t

from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.web.recorded.files import recording
from tools.marked_text import updated
from tools.record.correlated_noise import (
    COMPARISONS,
    PAGE,
    RECORDING,
    SEEDS,
    TUNING_SEED,
    part,
)
from tools.record.random_allocation import difference

SIZES = ("expected_batch_size", "steps", "noise_bands")
each_data_set = pytest.mark.parametrize("dataset", COMPARISONS)


def gains(dataset):
    """The gain over small and over large batches, each with its standard error."""
    correlated, *others = (
        row["test_accuracy"] for row in recording(RECORDING)[dataset]["rows"]
    )
    for independent in others:
        gain, error = map(float, difference(independent, correlated).split(" ± "))
        assert gain == round(100 * (mean(correlated) - mean(independent)), 2)
        yield gain, error


def test_the_page_has_the_recorded_figures():
    written = PAGE.read_text(encoding="utf-8")
    parts = {name: part(stored) for name, stored in recording(RECORDING).items()}
    assert parts.keys() == COMPARISONS.keys()
    assert updated(PAGE, parts) == written


@each_data_set
def test_the_recorded_noise_spends_the_target(dataset):
    stored = recording(RECORDING)[dataset]
    shared = dict(stored["config"])
    target = shared.pop("target_epsilon")
    for row in stored["rows"]:
        sizes = {name: row[name] for name in SIZES}
        noise = {"noise_multiplier": row["noise_multiplier"]}
        plan = TrainingConfig.parse(shared | sizes | noise).plan
        assert 0.999 * target < plan.epsilon() <= target


@each_data_set
def test_each_row_has_the_best_rate_of_a_seed_that_is_not_reported(dataset):
    shared, planned = COMPARISONS[dataset]
    stored = recording(RECORDING)[dataset]
    assert stored["config"].items() >= shared.items()
    for row, (given, rates) in zip(stored["rows"], planned, strict=True):
        assert {name: row[name] for name in SIZES} == given
        tried = dict(map(tuple, row["tried"]))
        assert tuple(tried) == rates
        assert tried[row["learning_rate"]] == max(tried.values())
        assert len(row["seeds"]) == len(row["test_accuracy"]) >= 5
        assert TUNING_SEED not in row["seeds"]


def is_apart(gain, error):
    """Whether 0 is outside the 95 % interval of the mean of the seeds."""
    return abs(gain) > t.ppf(0.975, len(SEEDS) - 1) * error


def test_the_page_claims_no_more_than_was_measured():
    page = " ".join(PAGE.read_text(encoding="utf-8").split())
    assert "no measurable gain" in page
    assert not any(is_apart(*each) for each in gains("housing"))
    small, large = gains("signals")
    assert "At equal small batches, correlated noise gains much." in page
    assert small[0] > 0
    assert is_apart(*small)
    assert "slightly higher mean, but five seeds are too few to tell" in page
    assert large[0] < 0
    assert not is_apart(*large)
    many, few = (
        row["expected_batch_size"] * row["steps"]
        for row in recording(RECORDING)["signals"]["rows"][:0:-1]
    )
    assert "four times as many gradients" in page
    assert many == 4 * few
