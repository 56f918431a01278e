"""The comparison on docs/how-to/correlated-noise.md follows from its recording."""

from statistics import mean

from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.web.recorded.files import recording
from tools.marked_text import updated
from tools.record.correlated_noise import (
    PAGE,
    PART,
    RECORDING,
    ROWS,
    TUNING_SEED,
    part,
)
from tools.record.random_allocation import difference

SIZES = ("expected_batch_size", "steps", "noise_bands")


def rows():
    return recording(RECORDING)["rows"]


def test_the_page_has_the_recorded_figures():
    written = PAGE.read_text(encoding="utf-8")
    assert updated(PAGE, {PART: part(recording(RECORDING))}) == written


def test_the_recorded_noise_spends_the_target():
    shared = recording(RECORDING)["config"]
    target = shared.pop("target_epsilon")
    for row in rows():
        sizes = {name: row[name] for name in SIZES}
        noise = {"noise_multiplier": row["noise_multiplier"]}
        plan = TrainingConfig.parse(shared | sizes | noise).plan
        assert 0.999 * target < plan.epsilon() <= target


def test_each_row_has_the_best_rate_of_a_seed_that_is_not_reported():
    for row, (given, rates) in zip(rows(), ROWS, strict=True):
        assert {name: row[name] for name in SIZES} == given
        tried = dict(map(tuple, row["tried"]))
        assert tuple(tried) == rates
        assert tried[row["learning_rate"]] == max(tried.values())
        assert len(row["seeds"]) == len(row["test_accuracy"]) >= 5
        assert TUNING_SEED not in row["seeds"]


def test_the_page_claims_no_more_than_was_measured():
    correlated, small, large = (row["test_accuracy"] for row in rows())
    for independent in (small, large):
        gain, error = map(float, difference(independent, correlated).split(" ± "))
        assert gain == round(100 * (mean(correlated) - mean(independent)), 2)
        assert gain <= 2 * error  # "no measurable gain"
    assert "no measurable gain" in PAGE.read_text(encoding="utf-8")
