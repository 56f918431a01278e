"""The trainer as a laboratory: charts in view, settings folded, a small screen."""

import pytest
from playwright.sync_api import expect

from tests.browser.trainer import REFUSED, focus, run_button, unfold

BLANK_BELOW = """(plate) => {
  const bottom = (part) => part.getBoundingClientRect().bottom;
  return bottom(plate) - Math.max(...[...plate.children].map(bottom));
}"""
ADULT = "/train/?dataset=adult&model=logistic&private=false&epochs=2"


BASIC = (
    "Data set",
    "Target ε",
    "Clipping bound C",
    "Expected batch size qN",
    "Learning rate η",
)


def test_five_settings_are_in_view_and_a_browser_remembers_to_show_all(open_page):
    page = open_page("/train/", new_visitor=True)
    for label in BASIC:
        expect(page.get_by_label(label, exact=True)).to_be_in_viewport(ratio=1)
    words = page.locator("[data-unusual]")
    usual = words.text_content()
    assert usual.endswith(" as usual")
    seed = page.get_by_label("Seed")
    expect(seed).to_be_hidden()
    focus(page.locator("[data-all-settings] > summary"))
    page.keyboard.press("Enter")
    seed.fill("4321")
    expect(words).to_contain_text("1 changed, ")
    said = words.text_content()
    page.wait_for_url("**seed=4321*")
    page.reload()
    expect(seed).to_be_visible()
    expect(words).to_have_text(said)  # by the server, then by the script
    focus(page.locator("[data-all-settings] > summary"))
    page.keyboard.press("Enter")
    page.goto(page.url.split("?")[0])
    expect(words).to_have_text(usual)
    expect(seed).to_be_hidden()


@pytest.mark.long("more journeys")
def test_a_wrong_or_shared_setting_that_is_not_in_view_is_shown(open_page):
    for address in ("/train/?seed=none", "/train/?seed=4321"):
        page = open_page(address, expected=[REFUSED])
        expect(page.get_by_label("Seed")).to_be_visible()
    page = open_page("/train/", expected=[REFUSED])
    page.locator("#seed").evaluate("(box) => { box.value = 'x'; }")
    page.get_by_label("Clipping bound C", exact=True).fill("0.2")
    expect(page.get_by_label("Seed")).to_be_visible()


@pytest.mark.long("more journeys")
@pytest.mark.parametrize("size", [(1280, 800), (1000, 760), (720, 900)])
def test_charts_stay_in_view_while_settings_are_scrolled(open_page, size):
    page = open_page("/train/", size=size)
    unfold(page)
    expect(page.locator(".accuracy-box .main-svg").first).to_be_visible()
    if size == (1280, 800):
        card = page.locator(".view-accuracy").bounding_box()
        assert card["y"] + card["height"] <= size[1]
    focus(page.get_by_label("Seed"))
    page.keyboard.type("1")
    expect(page.get_by_label("Seed")).to_be_in_viewport(ratio=1)
    expect(run_button(page)).to_be_in_viewport(ratio=1)
    if size == (1280, 800):  # where the charts are lower than the window
        expect(page.locator(".accuracy-box")).to_be_in_viewport(ratio=1)


@pytest.mark.long("more journeys")
def test_a_telephone_shows_the_whole_chart_of_a_run_and_the_chosen_preset(open_page):
    page = open_page(ADULT.replace("private=false&", ""), size=(390, 844))
    page.locator('[data-preset="adult"]').click()
    expect(page.locator('[data-preset="adult"]')).to_be_in_viewport(ratio=1)
    page.get_by_role("link", name="Settings").click()
    page.mouse.wheel(0, 2000)
    run_button(page).click()
    for part in (".status-bar", ".accuracy-box", "[data-gauge]", "[data-stop]"):
        expect(page.locator(part)).to_be_in_viewport(ratio=1)
    bar = page.locator(".run-bar").bounding_box()
    gauge = page.locator("[data-gauge]").bounding_box()
    assert gauge["y"] + gauge["height"] <= bar["y"]


def test_charts_stand_before_the_library_comes_and_it_takes_their_place(open_page):
    page = open_page("/about/")
    held = []
    page.route("**/plotly.min.js", lambda route: held.append(route))  # answered below
    page.goto(page.url.replace("/about/", "/train/"))
    expect(page.locator("[data-standing] > svg:visible")).to_have_count(3)
    expect(page.locator(".accuracy-box")).to_contain_text("recorded, 98.3 %")
    while not held:
        page.wait_for_timeout(10)
    expect(page.locator("[data-standing]")).to_have_count(3)
    for route in held:
        route.continue_()
    expect(page.locator(".accuracy-box .main-svg").first).to_be_visible()
    expect(page.locator("[data-standing]")).to_have_count(0)


@pytest.mark.long("more journeys")
def test_without_script_no_chart_is_blank(open_page, finished_run):
    for path in ("/train/", f"/runs/{finished_run['id']}/"):
        page = open_page(path, java_script_enabled=False)
        expect(page.locator("[data-standing] > svg:visible")).to_have_count(3)


@pytest.mark.long("more journeys")
def test_charts_of_a_set_up_that_is_refused_say_why_they_are_empty(open_page):
    page = open_page("/train/?learning_rate=-1", expected=[REFUSED])
    words = page.locator(".plot-box:visible", has_text="these settings cannot run yet")
    expect(words).to_have_count(3)
    page.get_by_label("Learning rate η", exact=True).fill("4")
    expect(page.locator(".plot-box .main-svg:first-child:visible")).to_have_count(3)
    expect(words).to_have_count(0)


@pytest.mark.long("more journeys")
def test_the_accuracy_is_drawn_as_high_as_the_two_charts_beside_it(
    open_page, finished_run
):
    for path in ("/train/", f"/runs/{finished_run['id']}/"):
        page = open_page(path)
        expect(page.locator(".accuracy-box .main-svg").first).to_be_visible()
        below = page.locator(".view-accuracy").evaluate(BLANK_BELOW)
        assert 0 <= below < 40, path  # its padding
        assert page.locator(".accuracy-box").bounding_box()["height"] >= 224, path


@pytest.mark.long("more journeys")
def test_the_replay_lies_under_the_thumb_beside_the_chart(open_page, finished_run):
    page = open_page(f"/runs/{finished_run['id']}/", size=(390, 844))
    play = page.get_by_role("button", name="Play", exact=True)
    expect(play).to_be_in_viewport(ratio=1)
    page.locator("#view-accuracy").focus()
    expect(page.locator(".views")).to_be_in_viewport(ratio=1)
    expect(play).to_be_in_viewport(ratio=1)
    page.keyboard.press("Shift+Tab")
    expect(page.get_by_label("Step of the replay")).to_be_focused()
    page.keyboard.press("Home")
    expect(page.locator('[data-part="place-words"]')).to_contain_text("step 0 of")
    page.mouse.wheel(0, 100_000)
    page.wait_for_function(
        "() => scrollY + innerHeight >= document.documentElement.scrollHeight - 1"
    )
    foot = page.get_by_text("Version", exact=False).last.bounding_box()
    assert foot["y"] + foot["height"] <= page.locator(".replay").bounding_box()["y"]
