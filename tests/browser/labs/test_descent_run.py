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


def launch(page):
    page.get_by_role("button", name="Run the descent").press("Enter")
    page.wait_for_url("**/runs/*/")


def reached(page):
    return page.locator("[data-conclusion]")


@pytest.mark.long("more journeys")
def test_a_descent_runs_to_its_end_and_is_replayed(lab):
    launch(lab)
    expect(reached(lab)).to_contain_text("After 2,010 of 2,010")
    expect(lab.locator('[data-status="epsilon"]')).to_have_text("2.00")
    focus(lab.get_by_label("Step of the replay"))
    lab.keyboard.press("Home")
    expect(reached(lab)).to_have_text("Error as the budget is spent")
    lab.keyboard.press("End")
    points = len(evenly_spent(2010, 100))
    lab.get_by_role("button", name="Show as table").click()
    expect(lab.locator("#descent-table tbody tr")).to_have_count(points)
    expect(lab.locator(".scatterlayer .trace")).to_have_count(3)


@pytest.mark.long("more journeys")
def test_results_that_come_in_leave_the_hand_on_the_button(open_page):
    page = open_page("/glossary/")
    late = []
    page.route("**/linear-regression/?*wait=*", lambda route: late.append(route))
    page.goto(page.url.replace("/glossary/", LAB) + "?noise_multiplier=100&epsilon=2")
    button = page.get_by_role("button", name="Run the descent")
    focus(button)
    page.keyboard.down("Space")
    expect(page.locator('[data-wait="descent"]')).to_have_count(1)
    page.wait_for_timeout(100)
    late[0].continue_()
    expect(page.locator("#descent h3")).to_contain_text("After 2,010 steps")
    expect(button).to_be_focused()
    page.keyboard.up("Space")
    page.wait_for_url("**/runs/*/")
    expect(reached(page)).to_contain_text("After 2,010 of 2,010")


@pytest.mark.long("more journeys")
def test_the_run_is_that_of_a_change_made_just_before(lab):
    lab.locator("#noise_multiplier").fill("60")
    launch(lab)
    expect(lab.locator("h1")).to_have_text(re.compile("Noisy descent, .* σ = 60"))


@pytest.mark.long("more journeys")
def test_wrong_settings_are_not_launched(lab):
    lab.locator("#y_bound").fill("0")
    lab.get_by_role("button", name="Run the descent").press("Enter")
    expect(lab.locator("#y_bound")).to_be_focused()
    assert LAB in lab.url


@pytest.mark.long("more journeys")
def test_a_running_descent_is_stopped_on_its_page(open_page):
    page = open_page(LONG)
    launch(page)
    expect(page.locator("[data-run-state]")).to_contain_text("Descending")
    page.get_by_role("button", name="Stop run").click()
    expect(page.locator("[data-run-state]")).to_contain_text("Stopped")
    page.goto(page.url.partition("/runs/")[0] + "/runs/")
    expect(page.locator("tbody tr")).to_contain_text("Noisy descent, 200,000 steps")
    expect(page.locator("tbody tr")).to_contain_text("Stopped")


@pytest.mark.long("more journeys")
def test_the_trainer_sends_whoever_has_its_link_to_the_page_of_the_run(lab):
    launch(lab)
    expect(reached(lab)).to_contain_text("After 2,010 of")
    site, _, run = lab.url.partition("/runs/")
    lab.goto(f"{site}/train/#run={run.strip('/')}")
    lab.wait_for_url(f"**/runs/{run}")
    expect(reached(lab)).to_contain_text("After 2,010")


@pytest.mark.long("more journeys")
def test_the_page_of_a_descent_is_accessible(lab, axe):
    launch(lab)
    expect(reached(lab)).to_contain_text("After 2,010 of 2,010")
    assert violations(lab, axe) == []
