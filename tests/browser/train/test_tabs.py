"""Two tabs at once, and the way back while a run trains: nothing is lost."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.trainer import SHORT, at, run_button, settings_in, status

HOLD_TURN = """() => new Promise((held) => navigator.locks.request("post", () => {
  held();
  return new Promise((release) => (globalThis.release = release));
}))"""
WAITING = "async (n) => (await navigator.locks.query()).pending.length === n"
MINE = "async () => (await (await fetch('/api/v1/runs')).json()).runs.length"


@pytest.mark.long("more journeys")
def test_first_launches_of_two_tabs_are_of_one_visitor(open_page):
    first = open_page(at(SHORT), new_visitor=True)
    second = first.context.new_page()
    second.goto(first.url)
    idle = first.context.new_page()
    idle.goto(first.url)
    idle.evaluate(HOLD_TURN)
    for number, page in enumerate([first, second], start=1):
        run_button(page).click()
        idle.wait_for_function(WAITING, arg=number)
    idle.evaluate("() => globalThis.release()")
    for page in (first, second):
        expect(status(page, "title")).to_contain_text("Run of")
        expect(page.get_by_role("button", name="Run", exact=True)).to_be_hidden()
    assert first.evaluate(MINE) == 2


@pytest.mark.long("more journeys")
def test_the_way_back_and_forward_finds_the_run_and_its_settings(open_page):
    page = open_page("/labs/planner/")
    page.goto(page.url.replace("/labs/planner/", at(SHORT | {"steps": 3000})))
    run_button(page).click()
    expect(status(page, "title")).to_contain_text("Run of")
    title = status(page, "title").inner_text()
    page.go_back()
    expect(page).to_have_url(re.compile("/labs/planner/"))
    page.go_forward()
    expect(status(page, "title")).to_have_text(title)
    assert settings_in(page)["steps"] == "3000"
    page.reload()
    expect(status(page, "title")).to_have_text(title)
    page.get_by_role("button", name="Stop run").click()
    expect(status(page)).to_have_text("Stopped")
