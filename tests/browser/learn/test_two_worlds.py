"""Two worlds in a browser: three stages, a threshold, a record that is dragged."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.trainer import focus

THRESHOLD_AND_COUNT_IN_ONE_FRAME = """() => {
    const key = new KeyboardEvent("keydown", {key: "ArrowRight", bubbles: true});
    document.querySelector("#two-worlds [data-grip=threshold]").dispatchEvent(key);
    document.querySelector("#two-worlds [data-count]:not(:checked)").click();
}"""


def test_two_worlds_come_in_three_stages(open_page):
    page = open_page("/learn/dp-concepts/")
    page.get_by_label("With little noise").fill("90")
    page.get_by_label("With much noise").fill("60")
    page.get_by_role("button", name="Show the picture").click()
    figure = page.locator("#two-worlds")
    title = figure.get_by_role("heading", level=3)
    expect(title).to_contain_text(re.compile(r"\d\d\s% of the time; at most \(this"))
    expect(title).to_contain_text("; ε alone: ")
    expect(figure.get_by_role("slider")).to_have_count(1)
    promise = figure.locator('[data-part="promise"]')
    epsilon = promise.inner_text()
    figure.get_by_role("slider", name="Noise multiplier").fill("0")
    expect(promise).not_to_have_text(epsilon)
    page.goto(page.url.split("#")[0].replace("dp-concepts", "what-models-leak"))
    expect(figure.get_by_role("slider")).to_have_count(2)


def test_two_worlds_are_trained_and_told_apart(open_page):
    page = open_page("/embed/two-worlds/")
    figure = page.locator("#two-worlds")
    figure.get_by_text("More settings").click()
    figure.get_by_text("About", exact=True).click()
    promise = figure.locator('[data-part="promise"]')
    expect(promise).to_contain_text("ε = ")
    epsilon = promise.inner_text()
    hits = figure.locator('[data-part="hits-0"]')
    figure.get_by_role("slider", name="Clipping bound").fill("1")
    expect(figure.get_by_text("2.00", exact=True)).to_be_visible()
    expect(promise).to_have_text(epsilon)  # C is not in ε
    figure.get_by_role("slider", name="Noise multiplier").fill("0")
    expect(promise).not_to_have_text(epsilon)
    grip = figure.get_by_role("slider", name="The attacker’s threshold")
    focus(grip)
    for _ in range(12):
        page.keyboard.press("Shift+ArrowRight")
    expect(grip).to_have_attribute("aria-valuenow", "5.0")
    odds = figure.locator('[data-part="odds"]')
    expect(odds).to_contain_text("With this threshold it never says")
    figure.get_by_label("1,000").check()
    expect(hits).to_contain_text("of 1,000")
    epsilon = promise.inner_text()
    figure.get_by_role("radio", name="0.25").check()
    expect(promise).not_to_have_text(epsilon)  # q is
    page.evaluate(THRESHOLD_AND_COUNT_IN_ONE_FRAME)
    expect(hits).to_contain_text("of 200")
    page.evaluate(THRESHOLD_AND_COUNT_IN_ONE_FRAME)
    expect(hits).to_contain_text("of 1,000")


@pytest.mark.long("more journeys")
def test_a_dragged_record_trains_both_worlds_anew_below_the_same_limit(open_page):
    page = open_page("/embed/two-worlds/", size=(1280, 2000))
    figure = page.locator("#two-worlds")
    show(figure, "Record 24")
    record = figure.get_by_role("slider", name="The odd record")
    promise = figure.locator('[data-part="promise"]')
    expect(promise).to_contain_text("ε = ")
    figure.get_by_text("More settings").click()
    show(figure, "Every σ")
    limit = figure.locator('[data-part="levels"] path.s-budget').get_attribute("d")
    show(figure, "Record 24")
    epsilon = promise.inner_text()
    calls = [figure.locator(f'[data-part="{name}-0"]') for name in ("hits", "alarms")]
    first = [call.inner_text() for call in calls]

    focus(record)
    for _ in range(7):
        page.keyboard.press("Shift+ArrowUp")
    expect(record).to_have_attribute("aria-valuenow", "1.5")
    near = gap(calls)
    assert near < gap_of(first)  # among the others it is hard to tell
    place = record.locator(".handle").bounding_box()
    page.mouse.move(place["x"] + 9, place["y"] + 9)
    page.mouse.down()
    figure.get_by_label("1,000").evaluate("radio => radio.click()")
    expect(calls[0]).to_contain_text("of 1,000")
    for step in range(12):
        page.mouse.move(place["x"] - 4 * step, place["y"] + 8 * step)
    page.mouse.up()
    expect(promise).to_have_text(epsilon)
    show(figure, "Every σ")
    moved = figure.locator('[data-part="levels"] path.s-budget').get_attribute("d")
    assert moved == limit
    figure.get_by_label("200", exact=True).check()
    figure.get_by_role("button", name="Put the record back").click()
    for call, words in zip(calls, first, strict=True):
        expect(call).to_have_text(words)


@pytest.mark.long("more journeys")
def test_at_most_four_of_the_seven_panels_are_in_view(open_page):
    page = open_page("/learn/auditing/")
    panels = page.locator("#two-worlds .panel:visible")
    expect(panels).to_have_count(3)
    for name in ("Intervals", "Every σ", "ε and δ", "Record 24"):
        show(page, name)
        expect(panels).to_have_count(4)
        expect(page.locator(f'#two-worlds [data-tab="{name}"]')).to_be_visible()


def show(figure, name):
    figure.get_by_role("button", name=name, exact=True).click()


def gap(calls):
    return gap_of([call.inner_text() for call in calls])


def gap_of(words):
    """Return by how much hits exceed false alarms, read as "120 of 200"."""
    hits, alarms = (int(text.split()[0].replace(",", "")) for text in words)
    return hits - alarms


@pytest.mark.long("more journeys")
def test_alone_two_worlds_measure_every_noise_without_being_touched(open_page):
    page = open_page("/embed/two-worlds/")
    show(page, "Every σ")
    dots = page.locator('[data-part="levels"] path.f-attack')
    expect(dots).to_have_attribute("d", re.compile("^M"))
