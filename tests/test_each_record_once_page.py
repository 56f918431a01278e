"""The comparison on docs/how-to/each-record-once.md follows from its recording."""

from statistics import mean

from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.web.recorded.files import recording
from tools.marked_text import updated
from tools.record.random_allocation import PAGE, PART, RECORDING, difference, part


def rows():
    return recording(RECORDING)["rows"]


def test_the_page_has_the_recorded_figures():
    written = PAGE.read_text(encoding="utf-8")
    assert updated(PAGE, {PART: part(recording(RECORDING))}) == written


def test_the_recorded_noise_spends_the_target():
    shared = recording(RECORDING)["config"]
    for row in rows():
        given = {
            "sampling": row["sampling"],
            "noise_multiplier": row["noise_multiplier"],
        }
        if row["sampling"] == "poisson":
            plan = TrainingConfig.parse(shared | given).plan
            assert plan.epsilon() <= row["target_epsilon"]
            assert plan.steps == row["steps"]
        assert len(row["seeds"]) == len(row["test_accuracy"]) >= 5


def test_every_record_is_drawn_once_by_random_allocation_alone():
    shares = {row["sampling"]: row["drawn_in_an_epoch"] for row in rows()}
    assert shares["random_allocation"][:3] == [0.0, 1.0, 0.0]
    assert shares["poisson"][0] > 0.3


def test_the_page_says_that_there_is_no_gain_only_while_there_is_none():
    text = PAGE.read_text(encoding="utf-8")
    assert "no measurable gain" in text
    for target in {row["target_epsilon"] for row in rows()}:
        pair = [x["test_accuracy"] for x in rows() if x["target_epsilon"] == target]
        gain, error = map(float, difference(*pair).split(" ± "))
        assert gain == round(100 * (mean(pair[1]) - mean(pair[0])), 2)
        assert abs(gain) <= error
