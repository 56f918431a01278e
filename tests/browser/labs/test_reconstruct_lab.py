"""The lab of reconstruction by keyboard: a picture is there, and drowns."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.trainer import focus

LAB = "/labs/reconstruct/"


def to(page, name, key):
    focus(page.locator(f"#{name}"))
    page.keyboard.press(key)


@pytest.mark.long("more journeys")
def test_a_picture_falls_out_and_drowns_by_keyboard(open_page, axe):
    page = open_page(LAB)
    heading = page.locator("[data-conclusion]")
    rows = page.locator("[data-rows] tr")
    expect(heading).to_contain_text("The picture shows through the noise: r = 0.9")
    to(page, "noise", "Home")
    expect(heading).to_have_text(
        "The picture can be read off the gradient: r = 1.00 at σ = 0, ε = ∞"
    )
    to(page, "noise", "End")
    expect(heading).to_contain_text("The picture is no longer visible")
    expect(page.locator("#noise")).to_have_attribute("aria-valuetext", "3")
    expect(page.locator("[data-rows] tr[aria-current] th")).to_have_text("3")
    focus(page.get_by_role("radio", name="linear", exact=True))
    page.keyboard.press("ArrowRight")
    expect(rows.first.locator("[data-correlation]")).to_have_text("1.00")
    to(page, "batch", "End")
    expect(page.locator("[data-pictures] figure")).to_have_count(8)
    expect(heading).to_contain_text("8 pictures are no longer visible")
    secret = rows.nth(6).locator("[data-secret]")
    before = secret.inner_text()
    to(page, "batch", "Home")
    expect(secret).not_to_have_text(before)
    noisy = rows.last.locator("[data-correlation]")
    drawn = noisy.inner_text()
    again = page.get_by_role("button", name="Draw new noise")
    focus(again)
    page.keyboard.press("Enter")
    expect(noisy).not_to_have_text(drawn)
    expect(heading).to_have_text(re.compile(r"r = .0\.\d\d|r = 0\.\d\d"))
    page.evaluate(axe)
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    assert [fault["id"] for fault in found["violations"]] == []


@pytest.mark.long("more journeys")
def test_a_link_shows_the_settings_that_it_was_copied_with(open_page):
    page = open_page(f"{LAB}?model=hidden&batch=4&noise=0.1&bound=nonsense&seed=3")
    expect(page.get_by_role("radio", name="one hidden layer")).to_be_checked()
    expect(page.locator("#batch")).to_have_attribute("aria-valuetext", "4")
    expect(page.locator("#noise")).to_have_attribute("aria-valuetext", "0.1")
    expect(page.locator("#bound")).to_have_attribute("aria-valuetext", "1")
    expect(page.locator("[data-pictures] figure")).to_have_count(4)
    heading = page.locator("[data-conclusion]").inner_text()
    to(page, "noise", "End")
    expect(page).to_have_url(re.compile(r"model=hidden.*noise=3&seed=3$"))
    site = page.url.partition(LAB)[0]
    page.goto(f"{site}{LAB}?model=hidden&batch=4&noise=0.1&seed=3")
    expect(page.locator("[data-conclusion]")).to_have_text(heading)
