"""The regression lab in a browser: what is set is what is shown."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.trainer import focus

PAGE = "/labs/linear-regression/"


@pytest.fixture
def lab(open_page):
    return open_page(PAGE)


def heading(page, chart):
    return page.locator(f"#{chart} h3")


@pytest.mark.long("more journeys")
def test_a_slider_moves_by_keyboard_and_the_charts_follow(lab):
    focus(lab.get_by_label("Budget, slider"))
    lab.keyboard.press("Home")
    expect(heading(lab, "errors")).to_contain_text("At ε = 0.1, AdaSSP")
    lab.wait_for_url("**/?epsilon=0.1")
    lab.keyboard.press("End")
    expect(heading(lab, "errors")).to_contain_text("At ε = 2, ")
    lab.reload()
    expect(heading(lab, "errors")).to_contain_text("At ε = 2, ")


@pytest.mark.long("more journeys")
def test_the_switch_shows_what_the_same_privacy_buys(lab):
    expect(heading(lab, "budget")).to_contain_text("69 %")
    lab.get_by_label("Spending").select_option("notebook")
    expect(heading(lab, "budget")).to_contain_text("62 %")
    expect(lab.locator("#budget svg:visible")).to_contain_text("λ_min")


@pytest.mark.long("more journeys")
def test_a_long_descent_comes_by_itself(lab):
    lab.get_by_label("Noise of a step", exact=False).first.fill("200")
    expect(heading(lab, "descent")).to_contain_text("After 8,040 steps")
    assert "wait" not in lab.url


def test_a_mistake_stands_at_its_field_and_the_charts_come_back(lab):
    box = lab.locator("#y_bound")
    box.fill("0")
    expect(lab.locator("#y_bound-error")).to_have_text(
        "Label bound must be greater than 0, got 0."
    )
    expect(box).to_have_attribute("aria-invalid", "true")
    expect(lab.locator("#errors")).to_have_count(0)
    box.fill("4")
    expect(lab.locator("#y_bound-error")).to_be_hidden()
    expect(heading(lab, "errors")).to_be_visible()


@pytest.mark.long("more journeys")
def test_a_preset_sets_everything_and_an_open_table_stays_open(lab):
    lab.get_by_role("link", name=re.compile("The notebook’s figure")).click()
    expect(heading(lab, "descent")).to_contain_text("After 50,251 steps")
    expect(lab.locator("#noise_multiplier")).to_have_value("500")
    preset = lab.locator("[data-presets] [aria-current]")
    expect(preset).to_contain_text("The notebook’s figure")
    lab.locator("#errors .table-toggle summary").click()
    lab.locator("#y_bound").fill("4")
    expect(preset).to_have_count(0)
    expect(lab.locator("#errors table")).to_be_visible()


@pytest.mark.long("more journeys")
def test_a_guess_is_answered_with_its_reason(lab):
    lab.get_by_text("Two guesses first").click()
    lab.get_by_label("AdaSSP: its ridge").check()
    expect(lab.locator(".guesses .why:visible")).to_contain_text("Its median here is")
    expect(lab.locator(".guesses .verdict:visible")).to_have_text("This one")


@pytest.mark.long("more journeys")
def test_one_of_three_follows_and_the_address_leaves_it_out(lab):
    steps, target = lab.locator("#steps"), lab.locator("#target_epsilon")
    expect(steps).to_have_value("502")
    expect(steps).not_to_be_editable()
    target.fill("1")
    expect(steps).to_have_value("140")
    expect(heading(lab, "descent")).to_contain_text("After 140 steps")
    lab.wait_for_url("**/?target_epsilon=1")
    focus(lab.get_by_label("Solve for"))
    lab.keyboard.press("ArrowUp")
    expect(lab.get_by_label("Solve for")).to_have_value("noise_multiplier")
    expect(steps).to_be_editable()
    expect(lab.locator("#noise_multiplier")).not_to_be_editable()
    steps.fill("600")
    expect(heading(lab, "descent")).to_contain_text("After 600 steps and ε = 1.0000")
    noise = lab.locator("#noise_multiplier").input_value()
    assert "&noise_multiplier=" not in lab.url
    lab.reload()
    expect(lab.locator("#noise_multiplier")).to_have_value(noise)
    expect(steps).to_have_value("600")


@pytest.mark.long("more journeys")
def test_both_regimes_are_computed_when_asked_for(lab):
    expect(heading(lab, "regimes")).to_contain_text("descent with σ = 500")
    lab.locator("#y_bound").fill("4")
    lab.locator("#regimes [data-wait]").click()
    expect(lab.locator("#regimes svg:visible")).to_contain_text(
        "GD, σ = 50", timeout=60_000
    )
    lab.locator("#regimes .table-toggle summary").click()
    expect(lab.locator("#regimes table")).to_be_visible()
