"""The lab's long descent as a run: launched, followed, stopped, replayed."""

import re

import pytest
from playwright.sync_api import expect

from dpsgd_explorer.experiments.config import evenly_spent
from tests.browser.trainer import focus, violations

LAB = "/labs/linear-regression/"
LONG = f"{LAB}?noise_multiplier=999&steps=200000&epsilon=2"


@pytest.fixture
def lab(open_page):
    return open_page(f"{LAB}?noise_multiplier=100&epsilon=2")


def said(page):
    return page.locator("[data-run-said]")


def launch(page):
    # By a key: between the two halves of a click the button may move to new results.
    page.get_by_role("button", name="Run it").press("Enter")


@pytest.mark.long("more journeys")
def test_a_descent_runs_to_its_end_and_is_replayed(lab):
    launch(lab)
    expect(said(lab)).to_contain_text("Finished, step 2,010 of 2,010")
    expect(said(lab)).to_contain_text("median MSE 0.")
    expect(lab.get_by_role("button", name="Run it")).to_be_enabled()
    lab.get_by_role("link", name="Open the run").click()
    expect(lab.locator("[data-conclusion]")).to_contain_text("After 2,010 of 2,010")
    expect(lab.locator('[data-status="epsilon"]')).to_have_text("2.00")
    focus(lab.get_by_label("Step of the replay"))
    lab.keyboard.press("Home")
    expect(lab.locator("[data-conclusion]")).to_have_text(
        "Error as the budget is spent"
    )
    lab.keyboard.press("End")
    points = len(evenly_spent(2010, 100))
    lab.get_by_role("button", name="Show as table").click()
    expect(lab.locator("#descent-table tbody tr")).to_have_count(points)
    expect(lab.locator(".scatterlayer .trace")).to_have_count(3)


@pytest.mark.long("more journeys")
def test_results_that_come_in_leave_the_hand_on_the_button(open_page):
    page = open_page("/glossary/")
    late = []
    page.route("**/linear-regression/results?*", lambda route: late.append(route))
    page.goto(page.url.replace("/glossary/", LAB) + "?noise_multiplier=100&epsilon=2")
    button = page.get_by_role("button", name="Run it")
    focus(button)
    page.keyboard.down("Space")
    expect(page.locator('[data-wait="descent"]')).to_have_count(1)
    late[0].continue_()
    expect(page.locator("#descent h3")).to_contain_text("After 2,010 steps")
    expect(button).to_be_focused()
    page.keyboard.up("Space")
    expect(said(page)).to_contain_text("Finished, step 2,010 of 2,010")
    order = "nodes => nodes.map(({id, dataset}) => id || Object.keys(dataset)[0])"
    children = page.locator("[data-results] > :is([id], [data-descent-run])")
    assert children.evaluate_all(order) == [
        *["errors", "descent", "regimes", "descentRun", "cloud", "budget"]
    ]


@pytest.mark.long("more journeys")
def test_a_running_descent_outlives_a_change_of_settings_and_stops(open_page):
    page = open_page(LONG)
    launch(page)
    expect(said(page)).to_contain_text(re.compile(r"step [1-9][\d,]* of 200,000"))
    focus(page.get_by_label("Budget, slider"))
    page.keyboard.press("Home")
    page.wait_for_url("**epsilon=0.1&**")
    expect(said(page)).to_contain_text("of 200,000")
    focus(page.get_by_role("button", name="Stop"))
    page.keyboard.press("Enter")  # by hand one waits until the new figures stand
    expect(said(page)).to_contain_text("Stopped, step")
    page.goto(page.url.replace(LAB, "/runs/").partition("?")[0])
    expect(page.locator("tbody tr")).to_contain_text("Noisy descent, 200,000 steps")
    expect(page.locator("tbody tr")).to_contain_text("Stopped")


@pytest.mark.long("more journeys")
def test_the_trainer_sends_whoever_has_its_link_to_the_page_of_the_run(lab):
    launch(lab)
    expect(said(lab)).to_contain_text("Finished")
    page = lab.get_by_role("link", name="Open the run").get_attribute("href")
    lab.goto(lab.url.partition("/labs/")[0] + f"/train/#run={page.split('/')[-2]}")
    lab.wait_for_url(f"**{page}")
    expect(lab.locator("[data-conclusion]")).to_contain_text("After 2,010")


@pytest.mark.long("more journeys")
def test_the_page_of_a_descent_is_accessible(lab, axe):
    launch(lab)
    expect(said(lab)).to_contain_text("Finished")
    lab.get_by_role("link", name="Open the run").click()
    expect(lab.locator("[data-conclusion]")).to_contain_text("After 2,010")
    assert violations(lab, axe) == []
