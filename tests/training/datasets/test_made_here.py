"""Data sets that are computed: signals from a program, housing as two classes."""

import hashlib

import numpy as np
import torch

from dpsgd_explorer.experiments.california_housing import housing as table
from dpsgd_explorer.training.datasets import housing, signals

DIGEST = "a9f83fd00b45e837dfb22d2395de7e2777e198134a3f2ef480c5dfca0f354b36"


def test_signals_are_the_same_everywhere():
    inputs, targets, tests, _ = signals.load()
    digest = hashlib.sha256(
        np.round(1e4 * torch.cat([inputs, tests]).numpy()).astype(np.int32).tobytes()
    ).hexdigest()
    assert digest == DIGEST
    assert torch.bincount(targets).tolist() == [signals.TRAIN_SIZE // 10] * 10


def test_a_signal_is_its_class_apart_from_noise():
    """The mean over many signals that begin at one place shows the curve."""
    values, labels = signals.generate(4000)
    curves = signals._uniform(signals.SEED, (signals.CLASSES, signals.POINTS))
    starts = ((signals._uniform(signals.SEED + 1, (4000, 3))[:, 2] + 1) / 2) * 28
    for label in range(3):
        chosen = (labels == label) & (starts.astype(int) == 7)
        mean = values[chosen, 7:19].mean(axis=0)
        scores = np.corrcoef(np.vstack([mean, curves]))[0, 1:]
        assert scores.argmax() == label


def test_a_house_is_dear_by_its_value_and_a_feature_by_its_threshold():
    inputs, targets, tests, test_targets = housing.load()
    rows, values = table.load()
    assert (test_targets == torch.from_numpy(values[::5] > 2.0)).all()
    assert torch.cat([inputs, tests]).norm(dim=1).sub(1).abs().max() < 1e-6
    place = housing.feature_names().index("MedInc ≥ 3")
    assert ((tests[:, place] > 0).numpy() == (rows[::5, 0] >= 3)).all()
    assert len(housing.feature_names()) == inputs.shape[1]
    assert len(targets) == len(inputs)
