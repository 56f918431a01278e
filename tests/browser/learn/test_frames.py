"""Figures with a slider: the figure as it is served, moved by key, and played."""

import pytest
from playwright.sync_api import expect

RIDERS = "all => all.map((one) => one.getAttribute('transform'))"


@pytest.mark.long("more journeys")
@pytest.mark.parametrize(
    ("slug", "name"),
    [
        ("planning-a-budget", "selection"),
        ("auditing", "audit"),
        ("sgd-basics", "descent"),
    ],
)
def test_a_slider_moves_dots_and_title_and_nothing_moves_by_itself(
    open_page, slug, name
):
    page = open_page(f"/learn/{slug}/", reduced_motion="reduce")
    skip = page.get_by_role("button", name="Skip the guess")
    while skip.count():
        skip.first.click()
    figure = page.locator(f"#{name}")
    slider, title = figure.get_by_role("slider"), figure.locator("[data-part=title]")
    riders = figure.locator(".only-wide [data-rider]")
    first, served = title.text_content(), riders.evaluate_all(RIDERS)
    still = slider.input_value()
    slider.focus()
    page.keyboard.press("Home")
    expect(title).not_to_have_text(first)
    moved = riders.evaluate_all(RIDERS)
    assert all(one != other for one, other in zip(served, moved, strict=True))
    while int(slider.input_value()) < int(still):
        page.keyboard.press("ArrowRight")
    expect(title).to_have_text(first)
    page.keyboard.press("Home")
    figure.get_by_role("button", name="Play").click()
    expect(figure.get_by_role("button", name="Pause")).to_be_visible()
    expect(slider).not_to_have_value("0")
