"""The Learning Hub: whole chapters, links that lead somewhere, code that runs."""

import html
import itertools
import re
import runpy
from pathlib import Path
from urllib.parse import parse_qsl, urlparse

import pytest

from dpsgd_explorer.accounting import ACCOUNTANTS
from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.web.content.references import SOURCES
from dpsgd_explorer.web.hub.chapters.listings import listing
from dpsgd_explorer.web.hub.chapters.table import CHAPTERS, neighbours
from dpsgd_explorer.web.hub.chapters.text import (
    NO_BREAK_SPACE,
    headings,
    intuition_minutes,
    reading_minutes,
)
from dpsgd_explorer.web.hub.widgets.randomised_response.survey import standard_error
from dpsgd_explorer.web.pages import learn
from tests.web.reading import Page

ROOT = Path(__file__).parents[3]
LISTINGS = [
    (chapter, file)
    for chapter in CHAPTERS.values()
    for file in sorted(chapter.folder.glob("code*.py"))
]
TYPED_CHAPTER = re.compile(
    r"\bchapters?\s+\d|\b(next|last|previous|first|second)\s+chapter\b", re.IGNORECASE
)
CODE_SHOWN = re.compile(r"<(pre|code)\b.*?</\1>", re.DOTALL)
ESCAPED_TAG = re.compile(r"&lt;/?[a-z]+")
CHAPTER_LINK = re.compile(r'<a href="([^"]+)">[Cc]hapter\s(\d+)</a>')
BUILT_ON = (
    "1510.01799",  # norms without gradients
    "1607.00133",  # DP-SGD and the moments accountant
    "2106.07830",  # global clipping
    "2109.12298",  # Opacus
    "2110.05679",  # ghost clipping for sequences, large models
    "2205.10683",  # convolutions
    "2206.07136",  # automatic clipping
    "2210.00036",  # BiTFiT
    "2210.00038",  # book-keeping
)
SLUGS = [
    "intro",
    "dp-concepts",
    "sgd-basics",
    "what-models-leak",
    "dpsgd-intro",
    "per-sample-gradients",
    "parameters",
    "privacy-accounting",
    "planning-a-budget",
    "auditing",
    "private-linear-regression",
    "fairness",
    "in-the-real-world",
]


def test_the_chapters_keep_their_addresses_and_their_order():
    assert list(CHAPTERS) == SLUGS
    assert [chapter.number for chapter in CHAPTERS.values()] == [
        *range(1, len(SLUGS) + 1)
    ]


def test_the_hub_leads_to_every_chapter(reading):
    text = reading.get("/learn/").text
    for chapter in CHAPTERS.values():
        assert f'href="/learn/{chapter.slug}/"' in text
        assert chapter.title in text
    parts = re.findall(r'<h2[^>]* id="part-\d+">(\w+)</h2>', text)
    assert parts == [c.part for c in CHAPTERS.values() if c.part]
    assert len(parts) == 4


def test_every_colour_of_a_thumbnail_is_defined_on_the_hub(reading):
    page = reading.get("/learn/").text
    sheets = re.findall(r'/css/(\w+\.css)"', page)
    styles = "".join((ROOT / "static" / "css" / name).read_text() for name in sheets)
    used = set(re.findall(r'class="(?:[^"]* )?([fs]-[a-z-]+)', page))
    assert len(used) > 10
    assert {name for name in used if f".{name}" not in styles} == set()


@pytest.mark.parametrize("short", learn.SHORT)
def test_a_short_name_leads_to_its_chapter(reading, short):
    answer = reading.get(f"/learn/{short}/")
    assert (answer.status_code, answer.location) == (
        301,
        f"/learn/{learn.SHORT[short]}/",
    )
    assert reading.get(answer.location).status_code == 200


@pytest.mark.parametrize("source", SOURCES)
def test_a_source_of_a_program_has_an_address(source):
    """arXiv numbers link by themselves; blogs and manuals need their address."""
    where = SOURCES[source].where
    if "PyTorch" in where:
        assert SOURCES[source].url.startswith("https://"), source


def test_an_unknown_chapter_is_not_found(reading):
    answer = reading.get("/learn/nope/", headers={"Accept": "text/html"})
    assert answer.status_code == 404
    assert "Learn</a>" in answer.text


@pytest.mark.parametrize("slug", SLUGS)
def test_a_chapter_is_whole(read, slug):
    text = read(slug)
    page = Page(text)
    classes = " ".join(a.get("class") or "" for _, a in page.elements).split()
    assert classes.count("lede") == 1
    assert "callout" in classes
    assert text.count("<summary>Formally") == text.count("<summary>In code") == 1
    assert 3 <= classes.count("quiz") <= 5
    assert page.all("math")
    assert {"try", "sources", "pager", "rail", "insight"} <= set(classes)


@pytest.mark.parametrize("slug", SLUGS)
def test_a_chapter_asks_for_two_guesses_before_its_picture(read, slug):
    text = read(slug)
    picture = re.search(r'data-predict="([\w-]+)"', text)[1]
    assert f'data-predicted="{picture}"><figure' in re.sub(r">\s+<", "><", text)
    assert text.count("data-guess") >= 2
    assert "data-reveal" in text


@pytest.mark.parametrize("slug", SLUGS)
def test_a_chapter_has_one_to_four_pictures_each_saying_what_it_is(read, slug):
    text = read(slug)
    figures = re.findall(r'<figure class="chart .*?</figure>', text, re.DOTALL)
    assert 1 <= len(figures) <= 4
    for figure in figures:
        assert re.search(r'class="badge (recorded|computed|illustration)"', figure)
        assert figure.count('role="img" aria-label="') == 2  # wide and narrow
        assert '<table class="data">' in figure
        title = re.search(r"<h3[^>]*>(.*?)</h3>", figure)[1]
        assert re.search(r"\d", title), f"a heading is a conclusion: {title}"


@pytest.mark.parametrize("slug", SLUGS)
def test_a_chapter_is_neither_a_note_nor_a_book(read, slug):
    text = re.sub(
        r"<(svg|table|figure|details|nav|footer|header|aside)\b.*?</\1>",
        " ",
        read(slug),
        flags=re.DOTALL,
    )
    assert 800 <= len(Page(text).words) <= 1800


@pytest.mark.parametrize("slug", SLUGS)
def test_every_question_has_one_right_answer_and_a_reason_for_each(read, slug):
    text = read(slug)
    names = []
    for quiz in re.findall(r'<fieldset class="quiz">.*?</fieldset>', text, re.DOTALL):
        answers = quiz.count('type="radio"')
        assert answers >= 3
        assert quiz.count('class="verdict right"') == 1
        reasons = re.findall(r'<p class="why">(.*?)</p>', quiz, re.DOTALL)
        assert len(reasons) == answers
        assert all(len(reason.split()) >= 5 for reason in reasons)
        names += set(re.findall(r'name="([\w-]+)"', quiz))
    assert len(names) == len(set(names)), "two questions would share their answer"


@pytest.mark.parametrize("slug", ["", *SLUGS])
def test_every_link_leads_somewhere(reading, read, slug):
    address = f"/learn/{slug}/" if slug else "/learn/"
    for link in Page(read(slug)).all("a"):
        target = urlparse(link["href"])
        if target.scheme:
            known = {source.url for source in SOURCES.values()}
            assert link["href"] in known
            continue
        path = target.path or address
        answer = reading.get(path, buffered=True)  # closes the file of a built page
        assert answer.status_code == 200, path
        if target.fragment:
            assert f'id="{target.fragment}"' in answer.text, link["href"]


def test_no_tag_is_shown_as_text(read):
    texts = {slug: CODE_SHOWN.sub("", read(slug)) for slug in CHAPTERS}
    found = {slug: ESCAPED_TAG.findall(text) for slug, text in texts.items()}
    assert not any(found.values()), found


def test_no_number_of_a_chapter_is_typed():
    """A chapter that is put in between changes the numbers of all after it."""
    files = [
        *(ROOT / "templates").rglob("*.html"),
        *(ROOT / "dpsgd_explorer" / "web").rglob("*.py"),
        *(ROOT / "dpsgd_explorer" / "web").rglob("*.html"),
        *(ROOT / "dpsgd_explorer" / "web").rglob("*.js"),
        *(ROOT / "static" / "js").rglob("*.js"),
        *(ROOT / "docs").rglob("*.md"),
        ROOT / "README.md",
    ]
    for file in files:
        found = TYPED_CHAPTER.search(file.read_text(encoding="utf-8"))
        assert not found, f"{file}: {found}"


def test_a_link_to_a_chapter_names_its_number_wherever_it_stands(reading, read):
    numbers = {f"/learn/{c.slug}/": c.number for c in CHAPTERS.values()}
    links = [
        (urlparse(address).path, int(number))
        for slug in SLUGS
        for address, number in CHAPTER_LINK.findall(read(slug))
    ]
    assert links
    assert all(numbers[path] == number for path, number in links)
    with reading.application.test_request_context():
        assert learn.chapter_link("intro", "odds", start=True) == (
            '<a href="/learn/intro/#odds">Chapter\N{NO-BREAK SPACE}1</a>'
        )
        with pytest.raises(KeyError, match="nope"):
            learn.chapter_link("nope")


@pytest.mark.parametrize("slug", SLUGS)
def test_every_trainer_link_is_a_configuration_that_can_run(read, slug):
    links = [a["href"] for a in Page(read(slug)).all("a") if "/train/?" in a["href"]]
    assert len(links) >= 2
    for link in links:
        query = dict(parse_qsl(urlparse(link).query, strict_parsing=True))
        config = TrainingConfig.from_query(query)
        assert config.plan.steps > 0
        for name, text in query.items():
            said = getattr(config, name)
            assert str(said).lower() == text or float(said) == float(text)


def test_a_wrong_trainer_link_breaks_the_page_and_not_the_reader(reading):
    with (
        reading.application.test_request_context(),
        pytest.raises(ConfigError, match="max_grad_norm"),
    ):
        learn.trainer_url({"max_grad_norm": 0})


def test_a_run_without_noise_is_said_to_protect_nothing():
    assert learn.has_guarantee({"target_epsilon": 3})
    assert not learn.has_guarantee({"noise_multiplier": 0})
    assert not learn.has_guarantee({"private": False})


@pytest.mark.parametrize("slug", SLUGS)
def test_anchors_are_unique_and_the_rail_lists_every_section(read, slug):
    text = read(slug)
    ids = [a["id"] for _, a in Page(text).elements if "id" in a]
    assert len(ids) == len(set(ids))
    rail = re.search(r"<ul data-rail>(.*?)</ul>", text, re.DOTALL)[1]
    assert re.findall(r'href="#([\w-]+)"', rail) == [id for id, _ in headings(text)]
    assert len(headings(text)) >= 6


@pytest.mark.parametrize("slug", SLUGS)
def test_no_style_and_no_script_stands_in_the_page(read, slug):
    for tag, attributes in Page(read(slug)).elements:
        assert "style" not in attributes
        assert not [name for name in attributes if name.startswith("on")]
        assert tag != "style"
        if tag == "script":  # JSON is data, and is never run
            assert attributes.get("src") or attributes["type"] == "application/json"


def test_chapters_follow_each_other(read):
    order = list(CHAPTERS.values())
    for chapter, after in itertools.pairwise(order):
        assert neighbours(chapter)[1] is after
        assert neighbours(after)[0] is chapter
        text = read(chapter.slug)
        assert f'href="/learn/{after.slug}/" rel="next"' in text
    assert neighbours(order[0])[0] is None
    assert neighbours(order[-1])[1] is None


@pytest.mark.parametrize(
    "file",
    [file for _, file in LISTINGS if "print(" in file.read_text(encoding="utf-8")],
    ids=lambda file: f"{file.parent.name}-{file.stem}",
)
def test_the_code_of_a_chapter_runs_and_prints(file, capsys):
    runpy.run_path(str(file), run_name="__main__")
    assert capsys.readouterr().out.strip()


def test_a_record_is_read_out_of_its_gradient_as_the_chapter_says():
    seen = runpy.run_path(str(CHAPTERS["sgd-basics"].folder / "code.py"))
    assert seen["guess"] == int(seen["label"])
    assert (seen["recovered"] - seen["picture"][0]).abs().max() < 1e-5


def test_the_survey_finds_the_share_within_four_standard_errors():
    code = CHAPTERS["intro"].folder / "code.py"
    seen = runpy.run_path(str(code))  # seeded: no false alarm
    error = standard_error(seen["epsilon"], seen["people"], seen["true_share"])
    assert abs(seen["estimate"] - seen["true_share"]) < 4 * error


@pytest.mark.parametrize("slug", SLUGS)
def test_a_chapter_shows_all_its_code_as_the_file_that_runs(read, slug):
    shown = [
        html.unescape(re.sub(r"<[^>]+>", "", code)).replace(NO_BREAK_SPACE, " ")
        for code in re.findall(r"<pre[^>]*><code>(.*?)</code>", read(slug), re.DOTALL)
    ]
    files = CHAPTERS[slug].folder.glob("code*.py")
    assert sorted(shown) == sorted(
        file.read_text(encoding="utf-8").strip() for file in files
    )


def test_comments_and_values_of_shown_code_are_marked():
    shown = listing(CHAPTERS["dpsgd-intro"], "code.py")
    assert '<span class="c"># expected</span>' in shown
    assert '<span class="k">2_000</span>' in shown
    assert "<script" not in shown


def test_every_epsilon_of_a_chapter_says_how_it_was_counted(read):
    for slug in ("dpsgd-intro", "parameters", "privacy-accounting"):
        words = " ".join(Page(read(slug)).words)
        assert "one record added or removed, Poisson sampling and the exact" in words
    assert ACCOUNTANTS["exact"].status == "exact"


def test_papers_are_cited_by_arxiv_number_or_venue():
    cited = set()
    for chapter in CHAPTERS.values():
        text = (ROOT / "templates" / chapter.template).read_text(encoding="utf-8")
        cited |= set(re.findall(r'"(\w+)"', re.search(r"cite\((.*?)\)", text)[1]))
    assert cited == set(SOURCES)
    for paper in SOURCES.values():
        assert bool(paper.arxiv) != bool(paper.where)
        assert not (paper.arxiv and paper.address)
        assert paper.address == "" or paper.address.startswith("https://")
        assert re.fullmatch(r"(\d{4}\.\d{4,5}|cs/\d{7})?", paper.arxiv)
        if paper.arxiv[:1].isdigit():  # a preprint is no younger than its year
            assert 2000 + int(paper.arxiv[:2]) <= paper.year


@pytest.mark.parametrize("arxiv", BUILT_ON)
def test_the_articles_that_the_chapters_build_on_are_cited(read, arxiv):
    assert any(f">arXiv:{arxiv}</a>" in read(slug) for slug in SLUGS)


def test_the_tutorials_on_hooks_and_extending_are_cited(read):
    text = read("per-sample-gradients")
    for title in ("on forward and backward hooks", "Extending PyTorch"):
        assert title in text


def test_reading_time_counts_words_and_not_markup():
    unread = "<svg><text>a b</text></svg><math><mi>c</mi></math><pre>d e</pre>"
    fold = "<details><summary>f</summary>g</details>"
    sources = '<section class="sources"><h2>h</h2></section>'
    read = '<p title="i j">' + "word " * 179 + "</p><legend>word</legend>"
    table = '<details class="table-toggle"><summary>f</summary>g</details>'
    assert intuition_minutes(unread + fold + sources + read, []) == 1
    assert reading_minutes(unread + table + sources + read) == 1
    assert reading_minutes(fold + read) == 2  # the full track opens folds
    assert reading_minutes("word " * 181) == 2


def test_a_widget_takes_two_minutes_in_every_track_that_shows_it():
    widget = '<figure data-widget="a.js"><p>word</p></figure>'
    assert reading_minutes(2 * widget) == 1 + 4
    assert intuition_minutes(2 * widget, []) == 1 + 4
    assert intuition_minutes(2 * widget, [widget]) == 1 + 2
