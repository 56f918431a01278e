"""Every comparison of the texts and pictures says what is held fixed, and holds it."""

import html
import re
from pathlib import Path

import pytest

from dpsgd_explorer.web.content.chapters import CHAPTERS
from dpsgd_explorer.web.content.comparisons import COMPARISONS
from dpsgd_explorer.web.pages import home, learn
from dpsgd_explorer.web.recorded.runs import recorded
from tests.web.reading import Reader, application

TEMPLATES = Path(__file__).parents[3] / "templates"
BLOCK = re.compile(r"<(p|li|legend|caption|fieldset)\b[^>]*>(.*?)</\1>", re.DOTALL)
USED = re.compile(r"\bcompare\.(\w+)")
# A computed number of the running text that is no side of a declared comparison.
NUMBER = re.compile(r"\{\{[^}]*?\b(?:number|regression)\.(\w+)\(")
SENTENCE = re.compile(r"(?<=[.:?!])\s+(?=[A-Z<“])")
# Pairs that stand in one sentence and compare nothing: two readings of one thing, a
# count beside its range.
TOGETHER = {
    frozenset({"beyond_the_band", "gaussian_delta"}),
    frozenset({"scaled_delta", "step_in_its_batch"}),
    frozenset({"size", "features"}),
    frozenset({"features", "matrix_entries"}),
    frozenset({"beyond_their_range", "features"}),
    frozenset({"nonprivate", "trivial"}),
    frozenset({"median", "median_between", "one_in_twenty"}),
    frozenset({"lambda_min_noise", "lambda_min_seen"}),
}
# Titles with several numbers that no comparison of two settings made, and the words
# in which the picture says what all of them share.
SHARED = {
    "answers": "for one answer replaced by the other",
    "tail": "σ = 1 times the sensitivity, one release",
    "descent": "Both paths see the same batches",
    "microscope": "C = 1, σ = 1.5",
    "lengths": "C = 0.1",
    "methods": "At ε = 0.1",
    "pull": "releases by AdaSSP at ε = 0.5",
    "rates": "σ = 500",
    "unfold": "One record, one channel",
    "people": "with the noise for ε = 1 per record",
    "selection": "each with the noise for ε = 1",
    "audit": "all declare σ = 4",
    "exposure": "trainings with it and 200 without it, 72 steps each",
}


@pytest.fixture(scope="module")
def client(shelf, tmp_path_factory):
    with application(shelf, tmp_path_factory.mktemp("reading")) as app:
        yield app.test_client()


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
def blocks(client):
    """The paragraphs of each chapter, as they are read."""
    read = Reader(client)
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
            named = NUMBER.findall(sentence)
            allowed = len(named) < 2 or any(set(named) <= pair for pair in TOGETHER)
            assert allowed, f"{slug}: declare a comparison for {named} in: {sentence}"


def pictures():
    return {
        name: draw
        for name, draw in {**learn.PICTURES, "accuracy": home.shown_accuracy}.items()
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


def test_the_run_on_the_landing_page_and_its_twin_differ_in_what_the_page_names(client):
    run, twin = (recorded(slug).config for slug in (home.SHOWN_RUN, home.TWIN))
    one, other = (config.model_dump() for config in (run, twin))
    assert {n for n in one if one[n] != other[n]} == {"private", "learning_rate"}
    text = plain(client.get("/").text)
    rates = f"learning rate {twin.learning_rate:g} instead of {run.learning_rate:g}"
    assert f"Without privacy: the same batches, {rates}" in text
    assert "in this run, against one run on the same batches" in text


def test_the_trainer_link_without_privacy_has_the_recorded_twins_learning_rate(client):
    twin = recorded(home.TWIN).config
    text = html.unescape(client.get("/learn/intro/").text)
    assert f"private=false&learning_rate={twin.learning_rate:g}" in text
    form = plain(client.get("/train/").text)
    assert f"the recorded run without privacy uses η = {twin.learning_rate:g}" in form
