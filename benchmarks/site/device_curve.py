"""``python -m benchmarks device_curve``: the same seeded runs on the CPU and on a GPU.

Noise and batches come from the seed and are drawn on the CPU, so the curves are equal
up to rounding.  Where there is no GPU, the CPU is compared with itself: every number
must be equal to the last digit.
"""

from __future__ import annotations

from typing import Any

from benchmarks import record
from dpsgd_explorer.experiments.experiment import PerformanceSettings
from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.training import devices
from dpsgd_explorer.training.dp_sgd import train

MODELS = ("mlp", "cnn")
SETTINGS = {
    "dataset": "mnist",
    "steps": 30,
    "evaluations": 3,
    "expected_batch_size": 256,
    "noise_multiplier": 1.0,
}
#: Largest difference of an evaluation on a GPU from the CPU's: of the accuracy, 20 of
#: 10,000 test records; of the loss, relative.  Rounding alone makes them differ.  The ε
#: must be equal.
ACCURACY_TOLERANCE, LOSS_TOLERANCE = 0.002, 0.001

Points = list[dict[str, Any]]
Row = dict[str, Any]


def main() -> None:
    """Compares the curves; stores the result of a GPU.

    Raises:
        SystemExit: a difference is larger than its tolerance.
    """
    device = devices.find("auto")
    rows = []
    for seed, model in enumerate(MODELS):
        config = TrainingConfig.parse(SETTINGS | {"model": model, "seed": seed})
        rows.append({"model": model, **compared(config, str(device))})
        print(rows[-1], flush=True)
    if device.type != "cpu":
        document = {
            "device": devices.model_name(device),
            "settings": SETTINGS,
            "rows": rows,
        }
        print(record.write("device_curve", document))
    too_far = [row["model"] for row in rows if not is_within(row, device.type)]
    if too_far:
        raise SystemExit(f"the curves differ by more than rounding: {too_far}")
    print(f"The curves on {device} are those of the CPU, within the tolerance.")


def compared(config: TrainingConfig, device: str) -> Row:
    """Returns the largest differences between both runs, and their seconds."""
    here, there = points(config, "cpu"), points(config, device)
    pairs = list(zip(here, there, strict=True))
    return {
        "epsilon_equal": all(a["epsilon"] == b["epsilon"] for a, b in pairs),
        "accuracy": here[-1]["test_accuracy"],
        "accuracy_difference": max(
            abs(a["test_accuracy"] - b["test_accuracy"]) for a, b in pairs
        ),
        "loss_difference": max(
            abs(a["test_loss"] / b["test_loss"] - 1) for a, b in pairs
        ),
        "cpu_seconds": here[-1]["seconds"],
        "device_seconds": there[-1]["seconds"],
    }


def points(config: TrainingConfig, device: str) -> Points:
    """Returns the data of a run's evaluations."""
    events = train(config, performance=PerformanceSettings(device=device))
    return [event.data for event in events if event.kind == "evaluation"]


def is_within(row: Row, device_type: str) -> bool:
    """Returns whether the differences are within the tolerance of a device."""
    scale = 0.0 if device_type == "cpu" else 1.0
    return bool(
        row["epsilon_equal"]
        and row["accuracy_difference"] <= scale * ACCURACY_TOLERANCE
        and row["loss_difference"] <= scale * LOSS_TOLERANCE
    )
