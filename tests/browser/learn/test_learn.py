"""The Learning Hub in a browser: marks, answers, the rail; and without script."""

import pytest
from playwright.sync_api import expect

from dpsgd_explorer.web.hub.chapters.table import CHAPTERS, neighbours
from tests.browser.trainer import focus


@pytest.mark.long("more journeys")
def test_what_was_read_is_marked_in_this_browser_and_can_be_erased(open_page):
    page = open_page("/learn/intro/", new_visitor=True)
    mark = page.get_by_role("button", name="I have read this chapter", exact=True)
    mark.click()
    expect(mark).to_have_attribute("aria-pressed", "true")
    page.goto(page.url.replace("/intro/", "/"))
    progress = f"1 of {len(CHAPTERS)} chapters read."
    expect(page.get_by_text(progress)).to_be_visible()
    expect(page.locator('[data-chapter="intro"]')).to_contain_text("✓ read")
    page.get_by_role("button", name="Erase your progress in this browser").click()
    expect(page.locator(".read-sign")).to_have_count(0)
    assert page.evaluate("() => localStorage.getItem('chapters-read')") is None


@pytest.mark.long("more journeys")
def test_every_chapter_lists_all_and_ticks_those_that_were_read(open_page):
    """Storage that is broken, or names chapters that are no more, counts as none."""
    page = open_page("/learn/intro/", new_visitor=True)
    chapters = page.locator(".rail [data-chapters]")
    expect(chapters.get_by_role("link")).to_have_count(len(CHAPTERS))
    current = chapters.locator('[aria-current="page"]')
    expect(current).to_have_text(CHAPTERS["intro"].title)
    for stored in ("{", '{"intro": true}', '["gone", 7]'):
        page.evaluate("(text) => localStorage.setItem('chapters-read', text)", stored)
        page.reload()
        expect(page.locator(".read-sign")).to_have_count(0)
    page.get_by_role("button", name="I have read this chapter").click()
    expect(current).to_contain_text("✓")
    assert page.evaluate("() => localStorage.getItem('chapters-read')") == '["intro"]'
    chapters.get_by_role("link", name=CHAPTERS["parameters"].title).click()
    expect(current).to_have_text(CHAPTERS["parameters"].title)
    expect(chapters.get_by_role("link", name="✓ read")).to_have_count(1)


@pytest.mark.long("more journeys")
def test_on_a_narrow_page_all_chapters_are_in_a_closed_list(open_page):
    page = open_page("/learn/intro/", size=(390, 844))
    chapters = page.locator(".rail [data-chapters]")
    expect(chapters).to_be_hidden()
    page.get_by_text("All chapters", exact=True).click()
    expect(chapters.get_by_role("link").last).to_be_visible()


@pytest.mark.long("more journeys")
def test_a_track_is_chosen_by_key_or_link_and_stays_in_this_browser(open_page):
    page = open_page("/learn/what-models-leak/", new_visitor=True)
    full = page.get_by_role("radio", name="Full")
    quick = page.get_by_role("radio", name="Intuition")
    formal = page.locator("details.fold")
    section = page.locator("#how")
    entry = page.locator("[data-rail]").get_by_role("link", name="How attacks work")
    expect(full).to_be_checked()
    for part in (section, entry, formal.first):
        expect(part).to_be_visible()
    focus(full)
    page.keyboard.press("ArrowLeft")
    expect(quick).to_be_checked()
    expect(page.locator(".full:visible")).to_have_count(0)
    expect(entry).to_be_hidden()
    expect(page.get_by_role("heading", name="Check yourself")).to_be_visible()
    assert page.url.endswith("/learn/what-models-leak/?track=intuition")
    page.emulate_media(media="print")
    for part in (section, formal.first):
        expect(part).to_be_visible()
    page.emulate_media(media="screen")
    page.goto(page.url.split("?")[0])
    expect(quick).to_be_checked()
    page.goto(page.url + "#how")
    expect(section).to_be_visible()  # a link into what the track leaves out
    page.goto(page.url.split("what-")[0] + "fairness/?track=full")
    expect(full).to_be_checked()
    expect(formal.first).to_be_visible()
    for stored in ("", "{", "nope", "toString"):
        page.evaluate("(text) => localStorage.setItem('track', text)", stored)
        page.goto(page.url.split("?")[0])
        expect(full).to_be_checked()
        assert page.evaluate("() => localStorage.getItem('track')") is None


def test_an_answer_shows_and_says_its_reason(open_page):
    page = open_page("/learn/dpsgd-intro/")
    quiz = page.locator(".quiz").first
    expect(quiz.locator(".why:visible")).to_have_count(0)
    quiz.get_by_text("Nothing", exact=True).click()
    expect(quiz.locator(".why:visible")).to_have_count(1)
    expect(quiz.get_by_role("status")).to_contain_text("This one.")
    page.keyboard.press("ArrowUp")
    expect(quiz.get_by_role("status")).to_contain_text("Not quite.")


def test_a_chapter_is_whole_without_script(open_page):
    page = open_page("/learn/dpsgd-intro/", java_script_enabled=False)
    expect(page.get_by_role("heading", level=1)).to_have_text(
        "DP-SGD: core modifications"
    )
    expect(page.locator("figure .plot:visible")).to_have_count(2)
    quiz = page.locator(".quiz").first
    quiz.get_by_text("Nothing", exact=True).click()
    expect(quiz.locator(".why:visible")).to_have_count(1)
    for button in ("I have read this chapter", "Copy TeX", "Dark"):
        expect(page.get_by_role("button", name=button)).to_have_count(0)
    following = neighbours(CHAPTERS["dpsgd-intro"])[1].title
    page.get_by_role("link", name=f"Next {following}").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(following)


@pytest.mark.long("more journeys")
def test_the_rail_follows_the_reader(open_page):
    page = open_page("/learn/parameters/")
    rail = page.locator("[data-rail]")
    expect(rail.locator("[aria-current]")).to_have_text("Which settings spend ε")
    page.locator("#tuning").evaluate("(section) => section.scrollIntoView()")
    expect(rail.locator("[aria-current]")).to_have_text("Tuning costs too")
    page.locator("footer").scroll_into_view_if_needed()
    expect(rail.locator("[aria-current]")).to_have_text("Sources")


@pytest.mark.long("more journeys")
def test_opening_a_chapter_calls_the_hook_that_a_site_may_fill(open_page):
    page = open_page("/learn/")
    page.add_init_script(
        "globalThis.told = []; globalThis.track = (...x) => told.push(x)"
    )
    page.goto(page.url + "sgd-basics/")
    page.wait_for_load_state("networkidle")
    assert page.evaluate("() => told") == [
        ["learning_step_open", {"step": "sgd-basics"}]
    ]


@pytest.mark.long("more journeys")
@pytest.mark.parametrize("track", ["{}", "'a text'", "null"])
def test_a_hook_that_is_no_function_is_left_alone(open_page, track):
    page = open_page("/learn/")
    errors = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.add_init_script(f"globalThis.track = {track}")
    page.goto(page.url + "sgd-basics/")
    page.wait_for_load_state("networkidle")
    assert errors == []


@pytest.mark.parametrize(
    "scheme",
    ["light", pytest.param("dark", marks=pytest.mark.long("more journeys"))],
)
def test_the_switch_turns_the_theme_round_and_is_remembered(open_page, scheme):
    page = open_page("/", color_scheme=scheme, new_visitor=True)
    ground = "() => getComputedStyle(document.body).backgroundColor"
    switch = page.locator("[data-theme-switch]")
    expect(switch).to_have_text("Dark" if scheme == "light" else "Light")
    before = page.evaluate(ground)
    page.evaluate(
        "() => document.addEventListener('themechange', (e) => { told = e.detail; })"
    )
    switch.click()
    after = page.evaluate(ground)
    assert after != before
    assert page.evaluate("() => told") == {"dark": scheme == "light"}
    page.goto(page.url + "learn/")
    assert page.evaluate(ground) == after
    expect(switch).to_have_text("Light" if scheme == "light" else "Dark")


def test_the_keyboard_gets_past_the_frame_first(open_page):
    page = open_page("/learn/intro/")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_in_viewport()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    expect(page.locator("main :focus")).to_have_count(1)


PATHS = ("/", "/learn/", "/learn/short/", *(f"/learn/{slug}/" for slug in CHAPTERS))


@pytest.mark.long("every page")
@pytest.mark.parametrize("path", PATHS)
def test_nothing_hangs_over_the_side_with_all_folds_open(open_page, path):
    page = open_page(path)
    for fold in page.locator("details").all():
        fold.evaluate("(fold) => { fold.open = true; }")
    for width in (390, 704, 1088, 1280, 1920):
        page.set_viewport_size({"width": width, "height": 844})
        sideways = "() => document.documentElement.scrollWidth - innerWidth"
        assert page.evaluate(sideways) <= 0, width


@pytest.mark.long("more journeys")
def test_printed_a_chapter_is_its_text(open_page):
    page = open_page("/learn/intro/")
    page.emulate_media(media="print")
    for part in (".site-nav", ".rail", ".theme-switch", ".pager", ".button"):
        expect(page.locator(f"{part}:visible")).to_have_count(0)
    expect(page.locator("h1")).to_be_visible()


@pytest.mark.long("more journeys")
def test_a_term_shows_its_meaning_on_hover_focus_and_tap(open_page):
    page = open_page("/learn/dp-concepts/")
    term = page.locator("a.term").first
    card = page.get_by_role("tooltip")
    meaning = term.get_attribute("data-meaning")
    term.hover()
    expect(card).to_have_text(meaning)
    expect(term).to_have_attribute("aria-describedby", "term-card")
    scrolled = page.evaluate("scrollY")
    page.mouse.wheel(0, 3)
    page.wait_for_function(f"scrollY !== {scrolled}")
    page.wait_for_timeout(300)  # longer than the delay before a card closes
    expect(card).to_have_text(meaning)
    expect(card).to_be_visible()
    page.keyboard.press("Escape")
    expect(card).to_be_hidden()
    expect(term).not_to_have_attribute("aria-describedby", "term-card")
    page.mouse.move(0, 0)
    page.keyboard.press("Tab")
    focus(term)
    expect(card).to_have_text(meaning)
    page.keyboard.press("Tab")
    expect(card).to_be_hidden()


@pytest.mark.long("more journeys")
def test_a_term_is_tapped_once_for_its_meaning_and_twice_for_its_entry(open_page):
    page = open_page("/learn/dp-concepts/", size=(390, 844), has_touch=True)
    term = page.locator("a.term").first
    term.tap()
    card = page.get_by_role("tooltip")
    expect(card).to_be_visible()
    box = card.bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 390
    assert page.url.endswith("/learn/dp-concepts/")
    term.tap()
    page.wait_for_url("**/glossary/#*")


@pytest.mark.long("more journeys")
def test_without_script_a_term_is_a_link_to_its_entry(open_page):
    page = open_page("/learn/dp-concepts/", java_script_enabled=False)
    page.locator("a.term").first.click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Glossary")
