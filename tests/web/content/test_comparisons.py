"""Every comparison of the texts and pictures says what is held fixed, and holds it."""

import html
import re
from pathlib import Path

import pytest

from dpsgd_explorer.web.figures.odds import odds_picture
from dpsgd_explorer.web.hub.chapters.page import MODULES
from dpsgd_explorer.web.hub.chapters.table import CHAPTERS
from dpsgd_explorer.web.hub.widgets.noise_to_signal import widget as noise_to_signal
from dpsgd_explorer.web.pages import home
from dpsgd_explorer.web.questions.comparison import Comparison
from dpsgd_explorer.web.recorded.runs import recorded
from tests.web.chapter_pictures import chapter_pictures
from tests.web.reading import page_data

TEMPLATES = Path(__file__).parents[3] / "templates"
# name: slug of the chapter, comparison
COMPARISONS = {
    name: (slug, value)
    for slug, module in MODULES.items()
    for name in module.__all__
    if isinstance(value := getattr(module, name), Comparison)
}
BLOCK = re.compile(r"<(p|li|legend|caption|fieldset)\b[^>]*>(.*?)</\1>", re.DOTALL)
# A computed number of the running text that is no side of a declared comparison.
NUMBER = re.compile(r"\{\{[^}]*?(?<!\w)([a-z_]+\.[a-z_]+)\(")
SENTENCE = re.compile(r"(?<=[.:?!])\s+(?=[A-Z<“])")
# Numbers that stand in one sentence without a declared comparison, and the words of
# the sentence in which it says what all of them share.
TOGETHER = {
    ("clipped_share",): "at the usual learning rate, without noise",
    ("close_points", "good_reaches"): "In this sweep",
    ("close_points", "sweep_bounds"): "as long as the learning rate was adjusted",
    ("error_of_one_in_twenty", "median", "median_between"): "At ε = 0.1 the median "
    "error of SSP",
    ("error_of_the_mean", "error_without_privacy"): "the error here is",
    ("feature_count", "features_beyond_range"): "Here each feature",
    ("feature_count", "matrix_entries"): "features that is",
    ("filtered_steps", "fixed_steps"): "With the noise of the default run",
    ("gaussian_delta", "probability_beyond"): "Above",
    ("lambda_min_noise", "lambda_min_seen_percent"): "even at ε = 2",
    ("limits", "spent_epsilon"): "In the picture",
    ("most_provable",): "right calls out of",
    ("noise_ratio", "rare_accuracy"): "At ε = 1 the noise is",
    ("points_lost",): "from no privacy to ε = 1",
    ("promised_epsilon", "proven_epsilon"): "the line of the sound program",
    ("rare_accuracy", "steps"): "at the usual rate, clipping without any noise",
    ("rare_accuracy", "tuned_factor"): "times that rate",
    ("rare_digit", "record_count"): "make one digit rare",
    ("batch_epsilon", "scaled_delta"): "To end at the same δ",
    ("separation",): "other orders",
}
# Plans and configurations: their attributes are settings, not results.
SETTINGS = {"classic_plan", "default_plan", "default_run", "private_twin"}
# Titles with several numbers that no comparison of two settings made, and the words
# in which the picture says what all of them share.
SHARED = {
    "intro": "for one answer replaced by the other",
    "dp-concepts": "σ = 1 times the sensitivity, one release",
    "sgd-basics": "Both paths see the same batches",
    "dpsgd-intro": "C = 1, σ = 1.5",
    "parameters": "350 steps of 512 expected records; ε = 3.00 at δ = 1e-5",
    "private-linear-regression": "At ε = 0.1",
    "rates_picture": "σ = 500",
    "per-sample-gradients": "One record, one channel",
    "in-the-real-world": "with the noise for ε = 1 per record",
    "planning-a-budget": "each with the noise for ε = 1",
    "fairness": "wavelet features and a linear layer on MNIST, 300 steps",
    "auditing": "all declare σ = 4",
    "what-models-leak": "trainings with it and 200 without it, 72 steps each",
}


def plain(text):
    """Return a text as it is read: no tags, no narrow differences of spaces."""
    bare = html.unescape(re.sub(r"<[^>]+>", "", text))
    return " ".join(bare.replace("\N{NO-BREAK SPACE}", " ").split())


def sources():
    return {
        slug: (TEMPLATES / "learn" / f"{slug}.html").read_text(encoding="utf-8")
        for slug in CHAPTERS
    }


@pytest.fixture(scope="module")
def blocks(read):
    """The paragraphs of each chapter, as they are read."""
    return {
        slug: [plain(inner) for _, inner in BLOCK.findall(read(slug))]
        for slug in CHAPTERS
    }


@pytest.mark.parametrize("name", COMPARISONS)
def test_a_comparison_names_what_it_holds_beside_both_sides(blocks, name):
    slug, comparison = COMPARISONS[name]
    sides = [
        comparison.write(
            comparison.measure(**{**comparison.fixed, comparison.varied: value})
        )
        for value in comparison.values
    ]
    parts = [plain(comparison.held), *map(plain, sides)]
    assert any(all(part in block for part in parts) for block in blocks[slug]), (
        f"no paragraph of {slug} holds all of {parts}"
    )


def test_no_sentence_puts_two_numbers_side_by_side_undeclared():
    for slug, text in sources().items():
        paragraphs = [inner for _, inner in BLOCK.findall(text)]
        for sentence in (s for p in paragraphs for s in SENTENCE.split(p)):
            named = [
                n.removeprefix("figures.")
                for n in NUMBER.findall(sentence)
                if n != "c.at" and n.removeprefix("figures.") not in SETTINGS
            ]
            if len(named) > 1:
                words = TOGETHER.get(tuple(sorted(set(named))))
                assert words, f"{slug}: declare a comparison for {named}: {sentence}"
                assert words in sentence, f"{slug}: {sentence}"


ELSEWHERE = {
    "accuracy": home.shown_accuracy,
    "batch": noise_to_signal.picture,
    "odds": odds_picture,
}


PICTURES = chapter_pictures() | ELSEWHERE


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_that_compares_says_what_is_held_fixed(name):
    picture = PICTURES[name]()
    words = plain(f"{picture.title} {picture.sub} {picture.note}")
    for comparison in picture.comparisons:
        assert comparison.held in words
    numbers = re.findall(r"(?<![\w.])\d[\d,.]*", picture.title)
    if len(numbers) > 1 and not picture.comparisons and name != "accuracy":
        assert name in SHARED, "declare a Comparison, or what its numbers share"
        assert SHARED[name] in words


def test_the_shown_run_and_its_twin_differ_in_what_the_page_names(
    reading,
):
    run, twin = (recorded(slug).config for slug in (home.SHOWN_RUN, home.TWIN))
    one, other = (config.model_dump() for config in (run, twin))
    assert {n for n in one if one[n] != other[n]} == {"private", "learning_rate"}
    text = plain(reading.get("/about/").text)
    rates = f"learning rate {twin.learning_rate:g} instead of {run.learning_rate:g}"
    assert f"Without privacy: the same batches, {rates}" in text
    assert "in this run, compared with a run on the same batches" in text


def test_the_trainer_link_without_privacy_has_the_recorded_twins_learning_rate(reading):
    twin = recorded(home.TWIN).config
    text = html.unescape(reading.get("/learn/intro/").text)
    assert f"private=false&learning_rate={twin.learning_rate:g}" in text


@pytest.mark.parametrize("slug", ["mnist-strict", "adult", "mnist-cnn"])
def test_the_trainer_says_the_rate_of_the_twin_on_its_own_data(reading, slug):
    run, twin = recorded(slug).config, recorded(f"{slug}-twin").config
    words = "the recorded run without privacy uses"
    page = reading.get(f"/train/?dataset={run.dataset}&model={run.model}").text
    form, _, _ = page.partition('type="application/json"')
    assert plain(form).count(words) == 1
    assert f"{words} η = {twin.learning_rate:g}." in plain(form)
    said = page_data(page)["catalogue"]["models"][run.model]["unclipped"][run.dataset]
    assert said.endswith(f"{words} η = {twin.learning_rate:g}.")
    page = reading.get("/train/?dataset=adult&model=mlp").text
    form, _, _ = page.partition('type="application/json"')
    assert words not in plain(form)
