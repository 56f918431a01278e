"""What a visitor expects of a run stands on its chart, held against the run's end."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.trainer import SHORT, at, focus, run_button, status


def on_the_chart(page):
    return page.locator(".accuracy-box .annotation-text", has_text="your prediction")


@pytest.mark.long("more journeys")
def test_the_end_is_predicted_by_key_and_click_and_held_against_the_run(open_page):
    page = open_page(at(SHORT), new_visitor=True)
    opener = page.get_by_role("button", name="Predict the end first")
    verdict = page.locator("[data-predict-verdict]")
    focus(opener)
    page.keyboard.press("Enter")
    slider = page.get_by_label("Your prediction of the last point")
    expect(slider).to_be_focused()
    said = page.locator("[data-predict] output")
    expect(said).to_have_text("move it")  # opening it predicts nothing
    expect(on_the_chart(page)).to_have_count(0)
    page.keyboard.press("ArrowRight")
    expect(said).to_have_text(re.compile(r"^[\d.]+ %$"))
    expect(on_the_chart(page)).to_have_text(f"your prediction, {said.inner_text()}")
    low = said.inner_text()
    box = page.locator(".accuracy-box")
    box.click(position={"x": 60, "y": 40})
    expect(said).not_to_have_text(low)
    assert float(said.inner_text()[:-2]) > float(low[:-2])
    predicted = float(said.inner_text()[:-2])
    expect(verdict).to_be_empty()
    run_button(page).click()
    expect(status(page)).to_have_text("Finished")
    expect(verdict).to_have_text(re.compile(r"^It ended at [\d.]+ %, "))
    ended, off = map(float, re.findall(r"([\d.]+) (?:%|points)", verdict.inner_text()))
    assert off == pytest.approx(abs(ended - predicted), abs=0.11)
    expect(slider).to_be_enabled()
    focus(page.get_by_role("button", name="Remove your prediction"))
    page.keyboard.press("Enter")
    expect(on_the_chart(page)).to_have_count(0)
    expect(verdict).to_be_empty()
    expect(opener).to_be_visible()


@pytest.mark.long("more journeys")
def test_no_recorded_end_is_shown_while_the_visitor_predicts(open_page):
    page = open_page("/train/", new_visitor=True)
    heading = page.locator('[data-chart="accuracy"] [data-conclusion]')
    expect(heading).to_contain_text("Recorded: ")
    opener = page.get_by_role("button", name="Predict the end first")
    opener.click()
    expect(heading).not_to_contain_text("Recorded")
    told = page.locator(".accuracy-box .annotation", has_text=re.compile("record|twin"))
    expect(told).to_have_count(0)
    page.get_by_role("button", name="Do not predict").click()
    expect(heading).to_contain_text("Recorded: ")
    expect(told).not_to_have_count(0)
    expect(opener).to_be_focused()


@pytest.mark.long("more journeys")
def test_a_run_that_had_ended_before_is_not_held_against_a_prediction(
    open_page, finished_run
):
    page = open_page(f"{at(SHORT)}#run={finished_run['id']}", new_visitor=True)
    expect(status(page)).to_have_text("Finished")
    page.get_by_role("button", name="Predict the end first").click()
    page.keyboard.press("ArrowRight")
    expect(page.locator("[data-predict] output")).to_contain_text("%")
    expect(page.locator("[data-predict-verdict]")).to_be_empty()
