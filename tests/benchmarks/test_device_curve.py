"""The comparison of curves finds what differs, and only that."""

from benchmarks.site import device_curve
from benchmarks.site.device_curve import ACCURACY_TOLERANCE, LOSS_TOLERANCE, is_within
from dpsgd_explorer.experiments.training_config import TrainingConfig

SETTINGS = {
    "dataset": "adult",
    "model": "logistic",
    "steps": 2,
    "evaluations": 2,
    "expected_batch_size": 64,
    "noise_multiplier": 1.0,
    "audit": 0,
    "seed": 41,
}


def test_the_cpu_equals_itself_and_each_difference_counts(monkeypatch):
    config = TrainingConfig.parse(SETTINGS)
    row = device_curve.compared(config, "cpu")
    assert (row["accuracy_difference"], row["loss_difference"]) == (0.0, 0.0)
    assert row["epsilon_equal"]
    assert is_within(row, "cpu")
    assert is_within(row | {"accuracy_difference": ACCURACY_TOLERANCE}, "cuda")
    for change in (
        {"epsilon_equal": False},
        {"accuracy_difference": 1.1 * ACCURACY_TOLERANCE},
        {"loss_difference": 1.1 * LOSS_TOLERANCE},
    ):
        assert not is_within(row | change, "cuda")
    assert not is_within(row | {"loss_difference": 1e-9}, "cpu")


def test_another_curve_differs(monkeypatch):
    config = TrainingConfig.parse(SETTINGS)
    true_points = device_curve.points

    def points(config, device):
        shift = {"learning_rate": 2 * config.learning_rate} if device == "other" else {}
        return true_points(config.model_copy(update=shift), "cpu")

    monkeypatch.setattr(device_curve, "points", points)
    row = device_curve.compared(config, "other")
    assert row["epsilon_equal"]
    assert not is_within(row, "cuda")
