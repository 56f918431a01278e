"""The short course is played to its end, by keyboard and by pointer."""

from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import expect

PHONE = {"width": 390, "height": 844}


def scene(page, name):
    return page.locator(f'[data-scene="{name}"]')


def expect_done(shown, count):
    expect(shown.locator(".goals li.done")).to_have_count(count)


@pytest.mark.long("more journeys")
def test_the_course_is_played_to_its_end_by_keyboard(open_page):
    page = open_page("/learn/short/")
    page.emulate_media(reduced_motion="reduce")
    page.reload()
    shown = scene(page, "noise")
    shown.get_by_role("slider").focus()
    limit = shown.locator('[data-part="limit"]')
    before = float(limit.inner_text())
    page.keyboard.press("End")
    assert float(limit.inner_text()) < before
    expect_done(shown, 2)
    page.keyboard.press("Home")
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    noise = shown.locator('[data-part="sigma"]').inner_text()
    page.get_by_role("button", name="Next", exact=True).press("Enter")
    shown = scene(page, "odd")
    expect(shown.get_by_role("heading")).to_be_focused()
    handle = shown.get_by_role("slider")
    for clip in (False, True):
        if clip:
            shown.get_by_role("checkbox").press("Space")
        handle.focus()
        for _ in range(3):
            page.keyboard.press("Shift+ArrowDown" if clip else "Shift+ArrowUp")
        expect_done(shown, 1 + clip)
    page.get_by_role("button", name="Next", exact=True).press("Enter")
    shown = scene(page, "step")
    shown.get_by_role("button", name="Play").press("Enter")
    expect_done(shown, 1)
    page.get_by_role("button", name="Next", exact=True).press("Enter")
    shown = scene(page, "attack")
    for _ in range(10):
        answer = shown.get_by_role("button", name="It was in")
        expect(answer).to_be_enabled()
        answer.press("Enter")
        expect(answer).to_be_disabled()
    expect_done(shown, 2)
    expect(shown.locator('[data-part="tally"]')).to_contain_text("2 of 4 right")
    expect(shown.locator('[data-part="live"]')).to_contain_text("56.0 times in 100")
    page.get_by_role("button", name="Next", exact=True).press("Enter")
    shown = scene(page, "train")
    expect(shown).to_contain_text("2 of 4 at σ = 0.5, 3 of 6 at σ = 4")
    door = shown.get_by_role("link", name="Run it for real")
    query = parse_qs(urlsplit(door.get_attribute("href")).query)
    assert query["noise_multiplier"] == [noise]
    door.click()
    expect(page.get_by_label("Noise multiplier").first).to_have_value(noise)
    page.get_by_role("button", name="Stop run").click()  # the link has started it
    page.goto(page.url.split("#")[0] + "#start")  # an address from elsewhere does not
    page.reload()
    expect(page.get_by_role("button", name="Run", exact=True)).to_be_visible()


@pytest.mark.long("more journeys")
def test_on_a_telephone_a_control_and_its_effect_are_in_view_together(open_page):
    page = open_page("/learn/short/")
    page.set_viewport_size(PHONE)
    page.goto(page.url + "#2")
    shown = scene(page, "odd")
    box = shown.get_by_role("slider").bounding_box()
    before = shown.locator('[data-part="live"]').inner_text()
    middle = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(*middle)
    page.mouse.down()
    page.mouse.move(middle[0], middle[1] - 150, steps=4)
    page.mouse.up()
    expect_done(shown, 1)
    assert shown.locator('[data-part="live"]').inner_text() != before
    expect(page.get_by_role("button", name="Next", exact=True)).to_be_in_viewport()
    page.reload()
    expect(shown).to_be_visible()  # the address names the scene
