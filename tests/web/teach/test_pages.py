"""For teachers: links that hide and lock, lesson plans, sheets and their keys."""

import html
import json
import re
from urllib.parse import urlsplit

import pytest

from dpsgd_explorer.web.forms.starts import Choices
from dpsgd_explorer.web.forms.trainer import trainer_controls
from dpsgd_explorer.web.http.assets import FRONT_DIR
from dpsgd_explorer.web.hub.chapters.table import CHAPTERS
from dpsgd_explorer.web.hub.registry import WIDGETS
from dpsgd_explorer.web.hub.widgets.odd_record import EDGE
from dpsgd_explorer.web.hub.widgets.two_worlds import widget as two_worlds
from tests.web.reading import Page, page_data, script_of

PAGE = {"Accept": "text/html"}
QUIZ = re.compile(r'<fieldset class="quiz">(.*?)</fieldset>', re.DOTALL)
VERDICT = re.compile(r'class="verdict (right|wrong)"')
GUESS = re.compile(r'data-guess data-answer="([^"]*)"')
REASON = re.compile(r'<p class="why">(.*?)</p>', re.DOTALL)
GRIP = re.compile(r'control: "(\w+)"')
SWITCHED_OFF = re.compile(r'<div class="field switched[^>]* hidden>')
OWN = {  # of the visitor, for nobody else to give
    "randomised-response": {"answer"},
    "singled-out": {"facts"},
    "census-table": {"statistics"},
}
EDITED = [
    "/embed/two-worlds/?hide=nope",
    "/embed/two-worlds/?lock=noise,nope",
    "/embed/one-odd-record/?hide=noise",
    "/embed/two-worlds/?noise=3",
    "/embed/two-worlds/?noise=nan",
    "/embed/two-worlds/?noise=",
    "/embed/two-worlds/?bound=4.01",
    "/embed/two-worlds/?bound=-inf",
    "/embed/two-worlds/?bound=1,1",
    "/embed/two-worlds/?again=1",
    "/embed/two-worlds/?nope=1",
    "/embed/two-worlds/?count=0",
    "/embed/one-odd-record/?record=1",
    "/embed/one-odd-record/?record=1,-2,0",
    "/embed/one-odd-record/?record=1.25,-2",
    "/embed/one-odd-record/?%3Cscript%3E=1",
    "/embed/two-worlds/?hide=noise&lock=noise",
    "/train/?hide=nope",
    "/train/?lock=target_epsilon",
    "/teach/?for=nope",
    "/teach/?for=two-worlds&nope=hide",
    "/teach/?for=two-worlds&nope=show",
    "/teach/?for=two-worlds&noise=nope",
    "/teach/?for=two-worlds&start-noise=3",
    "/teach/?for=two-worlds&start-nope=1",
    "/teach/?for=two-worlds&start-hide=bound",
    "/teach/?for=trainer&start-seed=7",
    "/teach/?for=trainer&setup=%3Fnope%3D1",
    "/teach/?for=trainer&setup=%3Fsteps%3D-1",
    "/teach/?for=%3Cscript%3E",
]


def section(text, name):
    return re.search(
        rf'<section class="sheet" id="{name}">.*?</section>', text, re.DOTALL
    )[0]


def words(markup):
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", str(markup))).split())


@pytest.mark.parametrize("slug", CHAPTERS)
def test_sheet_and_key_are_those_of_the_chapter(reading, slug):
    chapter = reading.get(f"/learn/{slug}/").text
    plan = reading.get(f"/teach/{slug}/").text
    sheet, key = section(plan, "sheet"), section(plan, "key")
    quizzes = QUIZ.findall(chapter)
    assert len(quizzes) >= 3
    right = ["ABCDEFGH"[VERDICT.findall(quiz).index("right")] for quiz in quizzes]
    assert re.findall(r"<strong>([A-H])</strong></p>", key) == right
    assert sheet.count('class="because"') == len(quizzes)
    for reason in REASON.findall(chapter):
        assert words(reason) in words(key)
        assert words(reason) not in words(sheet)
    sheet, key = (part.replace("\N{NO-BREAK SPACE}", " ") for part in (sheet, key))
    for answer in GUESS.findall(chapter):
        assert f"<strong>{answer}</strong>" in key
        assert f"<strong>{answer}</strong>" not in sheet
    assert CHAPTERS[slug].question in html.unescape(plan)
    widgets = [w.slug for w in WIDGETS.values() if w.chapter == slug]
    links = {link["href"] for link in Page(plan).all("a")}
    assert {f"/embed/{widget}/" for widget in widgets} <= links


def test_every_link_of_a_lesson_plan_leads_somewhere(reading):
    for slug in CHAPTERS:
        for link in Page(reading.get(f"/teach/{slug}/").text).all("a"):
            target = urlsplit(link["href"])
            if target.fragment and target.path.startswith("/learn/"):
                text = reading.get(target.path).text
                assert f'id="{target.fragment}"' in text, link["href"]


@pytest.mark.parametrize("slug", WIDGETS)
def test_the_controls_of_a_widget_are_those_of_its_page_and_its_script(reading, slug):
    page = reading.get(f"/embed/{slug}/").text
    script = script_of(WIDGETS[slug])
    found = {*re.findall(r'data-control="([\w-]+)"', page), *GRIP.findall(script)}
    assert found == set(WIDGETS[slug].controls)


@pytest.mark.parametrize("slug", WIDGETS)
def test_a_link_that_was_built_hides_and_locks_what_was_chosen(reading, slug):
    hidden, *others = list(WIDGETS[slug].controls) * 2
    locked = next((name for name in others if name != hidden), None)
    chosen = f"&{hidden}=hide" + (f"&{locked}=lock" if locked else "")
    page = reading.get(f"/teach/?for={slug}{chosen}").text
    link = next(a["value"] for a in Page(page).all("input") if a.get("id") == "link")
    assert link.startswith(f"http://localhost/embed/{slug}/?hide={hidden}")
    code = html.unescape(re.search(r"<textarea.*?>(.*?)</textarea>", page, re.S)[1])
    assert Page(code).all("iframe")[0]["src"] == link
    target = urlsplit(link)
    embed = reading.get(f"{target.path}?{target.query}")
    assert embed.status_code == 200
    for tag, attributes in Page(embed.text).elements:
        name = attributes.get("data-control")
        if name is not None:
            assert ("hidden" in attributes) == (name == hidden), (tag, name)
            assert ("disabled" in attributes) == (name == locked), (tag, name)
    [figure] = [a for a in Page(embed.text).all("figure") if a.get("id") == slug]
    assert figure["data-hidden"] == hidden
    assert figure.get("data-locked") == locked
    whole = reading.get(f"/learn/{WIDGETS[slug].chapter}/").text
    assert "data-locked" not in whole
    assert "data-hidden" not in whole


def inputs_of(page, control):
    """Return the attributes of the inputs of a control, in a widget's page."""
    boxes = re.findall(
        rf'<fieldset[^>]* data-control="{control}".*?</fieldset>', page, re.DOTALL
    )
    return [
        {"type": tag} | attributes
        for box in boxes
        for tag, attributes in Page(box).elements
        if tag in ("input", "option")
    ]


@pytest.mark.parametrize(
    ("slug", "control"),
    [(slug, control) for slug in WIDGETS for control in WIDGETS[slug].starts],
)
def test_a_control_can_start_at_what_its_input_holds_and_at_nothing_else(
    reading, slug, control
):
    inputs = inputs_of(reading.get(f"/embed/{slug}/").text, control)
    rules = WIDGETS[slug].starts[control]
    for box in inputs:
        [rule] = rules
        values = rule.values if isinstance(rule, Choices) else (rule.low, rule.high)
        positions = [rule.position(value) for value in values]
        if box["type"] == "range":
            ends = [float(box["min"]), float(box["max"])]
            assert ends == [min(positions), max(positions)]
            assert rule.position(values[0] - 1e-9) is None
            assert rule.position(values[-1] + 1e-9) is None
        else:
            assert sorted(float(one["value"]) for one in inputs) == sorted(positions)
    script = script_of(WIDGETS[slug])
    assert inputs or control in GRIP.findall(script)


def test_every_control_that_holds_a_value_can_start_at_one(reading):
    for slug in WIDGETS:
        page = reading.get(f"/embed/{slug}/").text
        script = script_of(WIDGETS[slug])
        held = {name for name in WIDGETS[slug].controls if inputs_of(page, name)}
        held |= {*GRIP.findall(script)}
        assert held - OWN.get(slug, set()) == set(WIDGETS[slug].starts), slug


def test_the_odd_record_can_start_wherever_it_can_be_moved():
    script = FRONT_DIR / "static" / "js" / "widgets" / "common" / "odd_record.js"
    assert f"const EDGE = {EDGE};" in script.read_text(encoding="utf-8")


def test_a_link_that_was_built_starts_where_it_says(reading):
    built = reading.get(
        "/teach/?for=two-worlds&noise=lock&start-noise=2&start-bound=+0.50+"
        "&start-rate=&start-threshold=-1.5"
    ).text
    link = next(a["value"] for a in Page(built).all("input") if a.get("id") == "link")
    query = "noise=2&bound=0.5&threshold=-1.5&lock=noise"
    assert link == f"http://localhost/embed/two-worlds/?{query}"
    assert "<option selected>2</option>" in built
    bound = next(a for a in Page(built).all("input") if a.get("name") == "start-bound")
    assert bound["value"] == "0.5"
    page = reading.get(link).text
    [figure] = [a for a in Page(page).all("figure") if a.get("id") == "two-worlds"]
    place = two_worlds.NOISE.index(2)
    assert json.loads(figure["data-start"]) == {
        "noise": [place],
        "bound": [-1],
        "threshold": [-1.5],
    }
    assert "data-start" not in reading.get("/embed/two-worlds/").text


def test_a_wrong_value_is_refused_with_those_that_there_are(reading):
    answer = reading.get("/embed/two-worlds/?noise=3", headers=PAGE)
    assert "Noise must be one of 1, 1.26, 1.587, 2," in answer.text
    answer = reading.get("/embed/one-odd-record/?record=2,0", headers=PAGE)
    assert "Record must be from -1.2 to 1.2, then from -3 to 3, got" in answer.text


@pytest.mark.parametrize("address", EDITED)
def test_a_link_edited_by_hand_is_refused_and_shows_the_way_back(reading, address):
    answer = reading.get(address, headers=PAGE)
    assert answer.status_code == 422
    assert "Error 422" in answer.text
    assert 'href="/teach/"' in answer.text
    assert "<script>" not in answer.text


def test_the_trainer_keeps_what_a_link_fixes(reading):
    built = reading.get(
        "/teach/?for=trainer&setup=http://x/train/%3Ftarget_epsilon%3D1"
        "%26hide%3Dseed&seed=lock&fix=hide"
    ).text
    link = next(a["value"] for a in Page(built).all("input") if a.get("id") == "link")
    assert link == "http://localhost/train/?target_epsilon=1&hide=fix&lock=seed"
    assert "<textarea" not in built
    page = reading.get(link).text
    boxes = {a["data-field"]: a for _, a in Page(page).elements if "data-field" in a}
    assert "inert" in boxes["seed"]
    assert "inert" not in boxes["steps"]
    assert len(SWITCHED_OFF.findall(page)) == 1
    assert "This link fixes Target ε: 1, Seed: 7." in page
    assert page_data(page)["limits"] == "hide=fix&lock=seed"
    sent = {
        a["name"]: a["value"]
        for a in Page(page).all("input")
        if a.get("type") == "hidden"
    }
    assert sent == {"hide": "fix", "lock": "seed"}
    free = reading.get("/train/").text
    assert " inert" not in free
    assert page_data(free)["limits"] == ""


def test_every_setting_of_the_trainer_is_in_one_control(reading):
    address = "/train/?hide=" + ",".join(trainer_controls())
    page = reading.get(address).text
    for tag, attributes in Page(page).elements:
        if "data-field" in attributes and "data-member" not in attributes:
            assert "hidden" in attributes, (tag, attributes)
    assert len(SWITCHED_OFF.findall(page)) == 2


def test_teaching_is_found_from_every_page_and_from_the_hub(reading):
    for address in ("/", "/about/", "/nowhere"):
        answer = reading.get(address, headers=PAGE)
        assert 'href="/teach/"' in answer.text
    # In the text and in the footer; in the navigation of a browser that teaches.
    assert reading.get("/learn/").text.count('href="/teach/"') == 3
    plans = [a["href"] for a in Page(reading.get("/teach/").text).all("a")]
    assert {f"/teach/{slug}/" for slug in CHAPTERS} <= set(plans)
    answer = reading.get("/teach/nope/", headers=PAGE)
    assert answer.status_code == 404
    assert 'href="/teach/"' in answer.text
