"""The default model on one digit: a real picture, its real channels, a real run."""

import re

import pytest
import torch

from dpsgd_explorer.experiments.catalogue import MODELS
from dpsgd_explorer.experiments.data_files.files import FOLDER
from dpsgd_explorer.training.datasets import mnist
from dpsgd_explorer.web.figures.default_model import default_model_picture, stored
from dpsgd_explorer.web.recorded.runs import recorded
from tools.record import default_model


def test_the_picture_and_its_channels_are_those_of_the_data():
    number = stored()["number"]
    picture = mnist.pictures(mnist.TEST_IMAGES.read(FOLDER))[number]
    assert (255 * picture[0]).round().int().tolist() == stored()["picture"]
    assert (
        int(mnist.labels(mnist.TEST_LABELS.read(FOLDER))[number]) == stored()["digit"]
    )
    found = torch.tensor(default_model.channels(picture))
    assert torch.allclose(found, torch.tensor(stored()["channels"]), atol=2e-5)
    assert len(stored()["channels"]) == default_model.FIRST_ORDER
    assert stored()["all_channels"] * found[0].numel() == 1225
    assert MODELS["scattering_linear"].parameters["mnist"] == 1225 * 10 + 10


def test_the_scores_are_of_the_model_that_the_recorded_run_ends_with():
    run = recorded(stored()["preset"])
    assert run.config.model == "scattering_linear"
    assert stored()["test_accuracy"] == run.summary["test_accuracy"]
    assert len(stored()["scores"]) == 10


@pytest.mark.parametrize("drawing", ["wide", "narrow"])
def test_every_channel_and_every_score_is_drawn(drawing):
    picture = default_model_picture()
    scores = stored()["scores"]
    svg = getattr(picture, drawing)
    assert svg.count('class="f-sunken"') == 1 + len(stored()["channels"])
    bars = re.findall(
        r'<rect class="(f-\w+)" x="([\d.]+)" y="([\d.]+)" width="([\d.]+)"', svg
    )
    assert len(bars) == 10
    assert [i for i, bar in enumerate(bars) if bar[0] == "f-private"] == [7]
    assert scores.index(max(scores)) == stored()["digit"] == 7
    lengths = [float(bar[3]) for bar in bars]
    for length, score in zip(lengths, scores, strict=True):
        assert length / lengths[7] == pytest.approx(abs(score) / scores[7], abs=0.01)
    zero = float(bars[7][1])
    for bar, score in zip(bars, scores, strict=True):
        assert (float(bar[1]) >= zero) == (score > 0)
    pixels = sum(value > 255 / 16 for row in stored()["picture"] for value in row)
    size = {"wide": "6", "narrow": "4"}[drawing]
    digit = svg.split('class="f-sunken"')[1]
    assert digit.count(f"h{size}v{size}h-{size}z") == pixels


def test_the_page_of_the_recorded_run_shows_it_where_the_model_is_first_named(reading):
    text = reading.get("/about/").text
    model = MODELS["scattering_linear"].label.lower()
    assert text.index(model) < text.index('id="default-model"')
    assert default_model_picture().title in text
