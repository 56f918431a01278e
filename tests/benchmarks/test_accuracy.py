"""The accuracy benchmark trains on the right features and compares fairly."""

import math
from dataclasses import replace

import pytest
import torch

from benchmarks import record
from benchmarks.accuracy import measure
from benchmarks.accuracy.cases import CASES, DELTA, Case, Settings
from benchmarks.accuracy.training import GROUPS, Examples, examples_of, train
from benchmarks.accuracy.wide_scattering import WideScattering
from dpsgd_explorer.training.datasets.scattering import Scattering
from tools import marked_text

SETTINGS = Settings(batch_size=64, steps=20, learning_rate=2.0)
EASY = Case("mnist", "linear", "", 8.0, 0.0, (SETTINGS,))
CNN = replace(EASY, model="cnn")


@pytest.fixture(scope="module")
def pictures():
    return torch.rand(3, 28, 28, generator=torch.Generator().manual_seed(0))


def test_four_orientations_are_the_scattering_of_the_trainer(pictures):
    ours = WideScattering(28, orientations=4)(pictures)
    assert torch.allclose(ours, Scattering(28).channels(pictures), atol=1e-5)


def test_eight_orientations_turn_with_the_picture(pictures):
    """A quarter turn exchanges the waves, so the sorted channels stay the same."""
    transform = WideScattering(28)
    upright, turned = transform(pictures), transform(pictures.transpose(1, 2))
    assert upright.shape == (3, 81, 7, 7)
    assert upright.shape[1] % GROUPS == 0
    means = [
        channels[:, 1:].mean((2, 3)).sort(1).values for channels in (upright, turned)
    ]
    assert torch.allclose(*means, atol=1e-4)
    assert torch.allclose(upright[:, 0], turned[:, 0].transpose(1, 2), atol=1e-4)


def examples(count, seed):
    """Returns two classes that a plane separates, in eight dimensions."""
    draw = torch.Generator().manual_seed(seed)
    inputs = torch.randn(count, 8, generator=draw)
    return Examples(inputs.half(), (inputs[:, 0] > 0).long())


def test_a_training_learns_within_its_epsilon_and_repeats_itself():
    kept, held_out = examples(512, 1), examples(512, 2)
    first, again, other = (train(EASY, SETTINGS, kept, held_out, s) for s in (1, 1, 2))
    assert first.accuracy > 75
    assert first.epsilon <= EASY.epsilon
    assert first.accuracy == again.accuracy != other.accuracy


def halves(count, seed):
    """Returns pictures whose upper (0) or lower (1) half is lit."""
    draw = torch.Generator().manual_seed(seed)
    targets = torch.randint(0, 2, (count,), generator=draw)
    pictures = torch.rand(count, 1, 28, 28, generator=draw) / 2
    pictures.view(count, 2, -1)[torch.arange(count), targets] += 0.5
    return Examples(pictures, targets)


def test_the_convolutions_learn_within_their_epsilon_and_repeat_themselves():
    kept, held_out = halves(512, 1), halves(256, 2)
    first, again = (train(CNN, SETTINGS, kept, held_out, 1) for _ in range(2))
    assert first.accuracy > 75
    assert first.accuracy == again.accuracy
    assert first.epsilon <= CNN.epsilon


def test_the_convolutions_read_the_pictures_of_the_data_set():
    kept, test = examples_of(CNN)
    assert kept.inputs.shape == (60_000, 1, 28, 28)
    assert test.inputs.shape == (10_000, 1, 28, 28)


def test_the_recorded_rows_are_of_the_chosen_settings():
    results = record.read("accuracy")
    assert results["delta"] == DELTA
    assert len(results["rows"]) == len(CASES)
    for case, row in zip(CASES, results["rows"], strict=True):
        best = case.candidates[0]
        assert (row["dataset"], row["model"]) == (case.dataset, case.model)
        assert (row["source"], row["published"]) == (case.source, case.published)
        assert (row["batch_size"], row["steps"]) == (best.batch_size, best.steps)
        assert len(row["accuracies"]) == len(measure.SEEDS)
        assert row["mean"] == pytest.approx(math.fsum(row["accuracies"]) / 5)
        assert case.epsilon - 0.01 < row["epsilon"] <= case.epsilon


def test_the_page_shows_the_recorded_accuracies():
    shown = marked_text.lines_between(measure.PAGE, "accuracy")
    assert shown == measure.table(record.read("accuracy")).splitlines()
