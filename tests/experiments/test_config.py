import pytest

from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.experiments.catalogue import MODELS
from dpsgd_explorer.experiments.config import check_cost
from dpsgd_explorer.experiments.training_config import TrainingConfig


def config(**settings):
    return TrainingConfig.parse({"noise_multiplier": 2.0, **settings})


def test_cost_is_three_passes_a_drawn_record_and_one_a_predicted_record():
    run = config(model="cnn", steps=10, expected_batch_size=32, evaluations=2)
    one = MODELS["cnn"].multiply_adds["mnist"]
    assert run.cost == one * (3 * 10 * 32 + 2 * 10_000)


def test_epochs_cost_what_their_steps_cost():
    by_epochs = config(epochs=2.0, expected_batch_size=6000)
    assert by_epochs.cost == config(steps=20, expected_batch_size=6000).cost


def test_a_run_at_the_bound_is_let_through():
    run = config(steps=7)
    check_cost(run, run.cost)


@pytest.mark.parametrize("length", [{"steps": 4000}, {"epochs": 500.0}], ids=str)
def test_a_run_beyond_the_bound_is_refused_with_what_to_do(length):
    run = config(model="cnn", **length)
    with pytest.raises(ConfigError) as refusal:
        check_cost(run, 1e12)
    assert refusal.value.field == next(iter(length))
    for part in ("1e+12", f"{run.cost:.2g}", next(iter(length)), "smaller model"):
        assert part in str(refusal.value)
