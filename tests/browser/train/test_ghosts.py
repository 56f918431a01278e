"""Other runs behind the chart of Train: recorded ones, their twins, pinned ones."""

import json
from urllib.parse import urlencode

import pytest
from playwright.sync_api import expect

from dpsgd_explorer.experiments.presets import PRESETS
from dpsgd_explorer.web.recorded.runs import recorded, recorded_twin
from tests.browser.trainer import focus, run_button, status

PRESET = next(preset for preset in PRESETS if preset.slug == "adult")
ADULT = f"/train/?{urlencode(PRESET.config)}"
RECORDED, TWIN = recorded(PRESET.slug), recorded_twin(PRESET.slug)
PINS = "() => JSON.parse(localStorage.getItem('pinned-runs') ?? '[]')"


def names(page):
    return page.locator("[data-ghosts] li")


def on_the_chart(page, words):
    return page.locator(".accuracy-box .annotation-text", has_text=words)


@pytest.mark.long("more journeys")
def test_ghosts_are_labelled_and_each_is_taken_away_by_key(open_page, finished_run):
    page = open_page("/about/", new_visitor=True, expected=["404"])
    pins = json.dumps([finished_run["id"], "no-such-run"])
    page.evaluate("pins => localStorage.setItem('pinned-runs', pins)", pins)
    page.goto(page.url.replace("/about/", ADULT))
    expect(names(page)).to_have_count(3)
    title = finished_run["title"]
    expect(names(page).last).to_contain_text(title)
    own = f"{title[:27]}…" if len(title) > 28 else title
    reached = [
        f"{100 * run.summary['test_accuracy']:.1f} %" for run in (RECORDED, TWIN)
    ]
    lines = f"recorded, {reached[0]}", f"twin without privacy, {reached[1]}"
    for words in (*lines, own):
        expect(on_the_chart(page, words)).to_be_visible()
    assert page.evaluate(PINS) == [finished_run["id"]]  # what is gone is not pinned
    for count in (2, 1, 0):
        focus(names(page).last.get_by_role("button"))
        page.keyboard.press("Enter")
        expect(names(page)).to_have_count(count)
    expect(on_the_chart(page, "recorded")).to_have_count(0)
    assert page.evaluate(PINS) == []


@pytest.mark.long("more journeys")
def test_the_recorded_run_stays_behind_a_run_until_it_is_overtaken(open_page):
    page = open_page(ADULT, new_visitor=True)
    run_button(page).click()
    expect(status(page)).not_to_have_text("Ready")
    expect(names(page)).to_have_count(2)
    expect(status(page)).to_have_text("Finished")
    expect(on_the_chart(page, "recorded")).to_have_count(0)
    expect(on_the_chart(page, "twin without privacy")).to_be_visible()
