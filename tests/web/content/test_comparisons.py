"""Every comparison of the texts and pictures says what is held fixed, and holds it."""

import html
import re
from pathlib import Path

import pytest

from dpsgd_explorer.web.content.comparisons import COMPARISONS
from dpsgd_explorer.web.figures.odds import odds_picture
from dpsgd_explorer.web.hub.chapters.table import CHAPTERS
from dpsgd_explorer.web.hub.widgets.noise_to_signal import widget as noise_to_signal
from dpsgd_explorer.web.pages import home, learn
from dpsgd_explorer.web.recorded.runs import recorded
from tests.web.reading import page_data

TEMPLATES = Path(__file__).parents[3] / "templates"
BLOCK = re.compile(r"<(p|li|legend|caption|fieldset)\b[^>]*>(.*?)</\1>", re.DOTALL)
USED = re.compile(r"\bcompare\.(\w+)")
# A computed number of the running text that is no side of a declared comparison.
NUMBER = re.compile(r"\{\{[^}]*?(?<!\w)([a-z_]+\.[a-z_]+)\(")
SENTENCE = re.compile(r"(?<=[.:?!])\s+(?=[A-Z<“])")
# Numbers that stand in one sentence without a declared comparison, and the words of
# the sentence in which it says what all of them share.
TOGETHER = {
    ("audit.most_provable",): "right calls out of",
    ("audit.promised_words", "audit.reached"): "the line of the sound program",
    ("exposure.limits", "exposure.spent"): "In the picture",
    ("fair.at", "fair.noise_ratio"): "At ε = 1 the noise is",
    ("fair.at", "fair.stored"): "at the usual rate, clipping without any noise",
    ("fair.at", "fair.tuned"): "times that rate",
    ("fair.clipped",): "at the usual learning rate, without noise",
    ("fair.lost",): "from no privacy to ε = 1",
    ("fair.rare", "fair.records"): "make one digit rare",
    ("number.beyond_the_band", "number.gaussian_delta"): "Above",
    ("number.scaled_delta", "number.step_in_its_batch"): "To end at the same δ",
    ("regression.beyond_their_range", "regression.features"): "Here each feature",
    ("regression.features", "regression.matrix_entries"): "features that is",
    ("regression.lambda_min_noise", "regression.lambda_min_seen"): "even at ε = 2",
    (
        "regression.median",
        "regression.median_between",
        "regression.one_in_twenty",
    ): "At ε = 0.1 the median error of SSP",
    ("regression.nonprivate", "regression.trivial"): "the error here is",
    ("sweep.bounds", "sweep.close"): "as long as the learning rate was adjusted",
    ("sweep.close", "sweep.good_reaches"): "In this sweep",
    ("selection.filtered_steps", "selection.fixed_steps"): "With the noise of the "
    "default run",
}
# Titles with several numbers that no comparison of two settings made, and the words
# in which the picture says what all of them share.
SHARED = {
    "answers": "for one answer replaced by the other",
    "tail": "σ = 1 times the sensitivity, one release",
    "descent": "Both paths see the same batches",
    "microscope": "C = 1, σ = 1.5",
    "clipping": "350 steps of 512 expected records; ε = 3.00 at δ = 1e-5",
    "methods": "At ε = 0.1",
    "pull": "releases by AdaSSP at ε = 0.5",
    "rates": "σ = 500",
    "unfold": "One record, one channel",
    "people": "with the noise for ε = 1 per record",
    "selection": "each with the noise for ε = 1",
    "rare": "wavelet features and a linear layer on MNIST, 300 steps",
    "audit": "all declare σ = 4",
    "exposure": "trainings with it and 200 without it, 72 steps each",
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


def test_every_declared_comparison_is_made_in_a_chapter():
    used = {name for text in sources().values() for name in USED.findall(text)}
    assert used == set(COMPARISONS)


@pytest.mark.parametrize("name", COMPARISONS)
def test_a_comparison_names_what_it_holds_beside_both_sides(blocks, name):
    comparison = COMPARISONS[name]
    sides = [
        comparison.write(
            comparison.measure(**{**comparison.fixed, comparison.varied: value})
        )
        for value in comparison.values
    ]
    chapters = [slug for slug, text in sources().items() if f"compare.{name}" in text]
    parts = [plain(comparison.held), *map(plain, sides)]
    assert any(
        all(part in block for part in parts)
        for slug in chapters
        for block in blocks[slug]
    ), f"no paragraph of {chapters} holds all of {parts}"


def test_no_sentence_puts_two_numbers_side_by_side_undeclared():
    for slug, text in sources().items():
        paragraphs = [inner for _, inner in BLOCK.findall(text)]
        for sentence in (s for p in paragraphs for s in SENTENCE.split(p)):
            named = [n for n in NUMBER.findall(sentence) if n != "c.at"]
            if len(named) > 1:
                words = TOGETHER.get(tuple(sorted(set(named))))
                assert words, f"{slug}: declare a comparison for {named}: {sentence}"
                assert words in sentence, f"{slug}: {sentence}"


ELSEWHERE = {
    "accuracy": home.shown_accuracy,
    "batch": noise_to_signal.picture,
    "odds": odds_picture,
}


def pictures():
    return {
        name: draw
        for name, draw in {**learn.PICTURES, **ELSEWHERE}.items()
        if name not in ("step", "expected_batch")
    }


@pytest.mark.parametrize("name", pictures())
def test_a_picture_that_compares_says_what_is_held_fixed(name):
    picture = pictures()[name]()
    words = plain(f"{picture.title} {picture.sub} {picture.note}")
    for comparison in picture.comparisons:
        assert comparison.held in words
    numbers = re.findall(r"(?<![\w.])\d[\d,.]*", picture.title)
    if len(numbers) > 1 and not picture.comparisons and name != "accuracy":
        assert name in SHARED, "declare a Comparison, or what its numbers share"
        assert SHARED[name] in words


def test_the_run_on_the_landing_page_and_its_twin_differ_in_what_the_page_names(
    reading,
):
    run, twin = (recorded(slug).config for slug in (home.SHOWN_RUN, home.TWIN))
    one, other = (config.model_dump() for config in (run, twin))
    assert {n for n in one if one[n] != other[n]} == {"private", "learning_rate"}
    text = plain(reading.get("/").text)
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
