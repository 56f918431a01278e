"""What a process has done that has rehearsed."""

import warnings

from dpsgd_explorer.experiments.experiment import PerformanceSettings
from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.runs.worker.child import REHEARSAL
from dpsgd_explorer.training.dp_sgd import train
from dpsgd_explorer.training.rehearsal import warm_up

CONFIG = TrainingConfig(
    dataset="mnist",
    model="scattering_linear",
    noise_multiplier=1.0,
    expected_batch_size=64,
    steps=3,
    evaluations=1,
)


def told(performance=None):
    return [event.timeless() for event in train(CONFIG, performance=performance)]


def test_warming_up_stores_features_and_a_run_from_them_has_the_same_bits(tmp_path):
    folder, same_folder = tmp_path / "cache", tmp_path / "link"
    warm_up(performance=PerformanceSettings(cache_dir=folder))
    same_folder.symlink_to(folder)  # another name, so nothing is taken from memory
    assert told(PerformanceSettings(cache_dir=same_folder)) == told()
    assert {path.suffix for path in folder.iterdir()} == {".rows", ".sums", ".lock"}


def test_a_run_after_the_rehearsal_shares_no_seed_with_it():
    warm_up(*REHEARSAL)
    usual = TrainingConfig(dataset="adult", model="logistic", steps=2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        *_, end = train(usual)
    assert end.data["receipt"]["done"]
    assert "warnings" not in end.data["receipt"]
