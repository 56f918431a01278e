"""Widgets of whole runs in a browser: counted, trained three ways, played again."""

import re

import pytest
from playwright.sync_api import expect

from dpsgd_explorer.web.hub.widgets.people import widget as people
from tests.browser.trainer import focus


@pytest.mark.long("more journeys")
def test_accountants_race_over_a_run_that_one_chooses(open_page):
    page = open_page("/learn/privacy-accounting/")
    page.get_by_label("Rényi DP is a bound.").fill("4")
    page.get_by_role("radio", name="less", exact=True).check()
    page.get_by_role("button", name="Show the picture").click()
    expect(page.get_by_text("You said 4; it is 2.60.").first).to_be_visible()
    figure = page.locator("#accountant-race")
    expect(figure.get_by_text("you: 4")).to_have_count(2)
    title = figure.get_by_role("heading", level=3)
    expect(title).to_contain_text("an approximation 2.33, below the truth")
    door = figure.get_by_role("link", name="Count any run in the lab")
    before = door.get_attribute("href")
    figure.get_by_label("full batches").check()
    figure.get_by_text("About", exact=True).click()
    expect(figure.get_by_role("row", name="zCDP bound")).to_be_visible()
    expect(title).not_to_contain_text("below the truth")
    expect(figure.get_by_text("you: 4")).to_have_count(0)
    assert door.get_attribute("href") != before
    focus(figure.get_by_role("slider", name="Step"))
    page.keyboard.press("Home")
    expect(title).to_contain_text("After 1 step:")
    focus(figure.get_by_role("button", name="Play"))
    page.keyboard.press("Enter")
    expect(title).not_to_contain_text("After 1 step:")
    page.keyboard.press("Enter")
    expect(figure.get_by_role("button", name="Play")).to_be_visible()


@pytest.mark.long("more journeys")
def test_three_twins_split_the_cost_at_rates_of_their_own_and_at_one(open_page):
    page = open_page("/learn/dpsgd-intro/#three-way-twin")
    figure = page.locator("#three-way-twin")
    title = figure.get_by_role("heading", level=3).first
    expect(title).to_have_text(
        "Of 0.6 points of accuracy lost, clipping takes 0.1 and noise 0.5"
    )
    first = figure.get_by_role("radio", name="each its own")
    expect(first).to_be_checked()
    focus(first)
    page.keyboard.press("ArrowRight")
    expect(title).to_contain_text("All at the rate of “ordinary”: clipping seems")
    expect(figure.get_by_text("clipping: 9.1 points (8.67 to 9.34)")).to_be_visible()
    live = figure.locator("[data-live]")
    expect(live.get_by_text("ordinary, not private", exact=True)).to_be_visible()


def test_a_recorded_run_is_played_alone_by_keyboard_where_motion_is_unwanted(open_page):
    page = open_page("/embed/recorded-run/?run=5", reduced_motion="reduce")
    figure = page.locator("#recorded-run")
    title = page.get_by_role("heading", level=1)
    expect(title).to_contain_text("After 300 of 300 steps: ε = 1.00 of 1.00 spent")
    door = figure.get_by_role("link", name="Run it for real")
    expect(door).to_have_attribute("href", re.compile("dataset=adult"))
    play = figure.get_by_role("button", name="Play")
    focus(play)
    page.keyboard.press("Enter")
    expect(title).to_contain_text("After 1 of 300 steps")
    expect(title).not_to_contain_text("After 1 of 300 steps")  # a second later
    page.keyboard.press("Enter")
    expect(play).to_be_visible()
    figure.get_by_label("Run", exact=True).select_option("MNIST, ε = 1")
    expect(title).to_contain_text("98.15 of 100 unseen records right; without privacy")
    focus(figure.get_by_role("slider", name="Step"))
    page.keyboard.press("Home")
    expect(title).to_contain_text("After 1 of 300 steps")


@pytest.mark.long("more journeys")
def test_a_person_with_several_records_is_one_unit_or_many(open_page):
    one, _, _, _, five, *_, ten = people.data()["points"]
    page = open_page("/learn/in-the-real-world/")
    page.get_by_label("ε for the person").fill("6")
    page.get_by_role("radio", name="clipping by person").check()
    page.get_by_role("button", name="Show the picture").click()
    figure = page.locator("#people")
    expect(figure.get_by_text("you: 6")).to_be_visible()
    title = figure.get_by_role("heading", level=3)
    expect(title).to_contain_text(f"ε = {five['epsilon']} for a person with 5 records")
    slider = figure.get_by_role("slider", name="Records of one person")
    focus(slider)
    page.keyboard.press("End")
    expect(title).to_contain_text(f"ε = {ten['epsilon']} for a person with 10 records")
    focus(figure.get_by_role("radio", name="each record"))
    page.keyboard.press("ArrowRight")
    expect(title).to_contain_text(
        f"ε = {one['epsilon']} covers a person with 10 records"
    )
    expect(figure.get_by_text(one["limits"]).first).to_be_visible()


@pytest.mark.long("more journeys")
def test_a_rare_digit_is_guessed_and_compared_by_keyboard(open_page):
    page = open_page("/learn/fairness/")
    page.get_by_label("How many at ε = 1?").fill("90")
    page.get_by_label("And the same digit").fill("95")
    focus(page.get_by_role("button", name="Show the picture"))
    page.keyboard.press("Enter")
    expect(page.get_by_text("You said 90 %; it is 71 %.").first).to_be_visible()
    figure = page.locator("#rare-class")
    title = figure.get_by_role("heading", level=3).first
    expect(title).to_have_text(
        "At ε = 1: 70.9 % of the rare 8s are read right, 95.7 % on average, "
        "a gap of about 25 points"
    )
    expect(figure.get_by_text("you: 90 %")).to_be_visible()
    expect(figure.get_by_text("you: 95 %")).to_be_visible()
    focus(figure.get_by_role("radio", name="ε = 1"))
    page.keyboard.press("ArrowRight")  # from the last to the first
    expect(title).to_contain_text("Without privacy: 82.5 % of the rare 8s")
    expect(figure.get_by_role("radio", name="ordinary, not private")).to_be_checked()
    expect(figure.get_by_text("you: 90 %")).to_be_hidden()
    expect(figure.get_by_text("average 97.3 %")).to_be_visible()
    change = figure.locator('[data-part="change"]')
    expect(change).to_contain_text("being rare costs this digit")


@pytest.mark.long("more journeys")
def test_errors_of_regression_are_read_at_any_budget(open_page):
    page = open_page("/learn/private-linear-regression/")
    page.get_by_label("AdaSSP", exact=True).fill("0.9")
    page.get_by_label("A descent (see below)").fill("1")
    page.get_by_role("button", name="Show the picture").click()
    figure = page.locator("#regression-errors")
    expect(figure.get_by_text("you: 0.9")).to_be_visible()
    title = figure.get_by_role("heading", level=3)
    expect(title).to_contain_text("Median errors at ε = 0.1: AdaSSP")
    worse = "No better than the mean here: descent with σ = 50."
    expect(figure.get_by_text(worse)).to_be_visible()
    focus(figure.get_by_role("slider", name="Privacy loss bound"))
    page.keyboard.press("End")
    expect(title).to_contain_text("Median errors at ε = 2: ")
    expect(figure.get_by_text("All are better than the mean")).to_be_visible()
