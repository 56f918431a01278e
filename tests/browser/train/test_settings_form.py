"""The settings: sliders, switches, presets, errors, and the epsilon that follows."""

import re

import pytest
from playwright.sync_api import expect

from dpsgd_explorer.accounting import round_up
from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.web.recorded.runs import recorded
from tests.browser.conftest import TINY
from tests.browser.trainer import (
    REFUSED,
    SHORT,
    at,
    focus,
    planned,
    planned_noise,
    run_button,
    settings_in,
    unfold,
)

PLAN = re.compile("/api/v1/privacy/plan")


@pytest.fixture(scope="module")
def trainer(open_for_all):
    page = open_for_all("/train/", expected=[REFUSED])
    unfold(page)
    return page


@pytest.fixture
def page(trainer):
    """The trainer with the default set-up."""
    trainer.locator('[data-preset="mnist"]').click()
    noise = round_up(TrainingConfig().plan.noise_multiplier, 3)
    expect(planned(trainer, "noise_multiplier")).to_have_text(noise)
    return trainer


def box(page, label):
    return page.get_by_role("form", name="Settings").get_by_label(label, exact=True)


def test_a_slider_moves_by_keyboard_and_epsilon_follows(page):
    focus(page.get_by_label("Target, slider"))
    page.keyboard.press("Home")
    expect(box(page, "Target ε")).to_have_value("0.3")
    expect(planned(page)).to_have_text("0.30")
    expect(page.locator(".accuracy-box")).to_contain_text("budget ε = 0.30")
    page.wait_for_url("**target_epsilon=0.3*")
    noise = planned_noise(page)
    page.keyboard.press("End")
    expect(planned(page)).to_have_text("30.00")
    assert planned_noise(page) < noise


@pytest.mark.long("more journeys")
def test_a_typed_value_moves_its_slider(page):
    box(page, "Expected batch size qN").fill("256")
    expect(page.get_by_label("Expected batch size, slider")).to_have_value("1")
    expect(planned(page, "sample_rate")).to_have_text("0.00427")


@pytest.mark.long("more journeys")
def test_fixing_the_noise_instead_keeps_the_set_up(page):
    noise = planned_noise(page)
    page.get_by_role("radio", name="noise σ").check(force=True)
    expect(box(page, "Noise multiplier σ")).to_be_visible()
    expect(box(page, "Target ε")).to_be_hidden()
    typed = float(box(page, "Noise multiplier σ").input_value())
    assert typed == pytest.approx(noise, abs=0.002)
    page.wait_for_url("**noise_multiplier=*")
    assert "target_epsilon" not in settings_in(page)
    expect(planned(page)).to_have_text(re.compile(r"^(2\.99|3\.00)$"))


@pytest.mark.long("more journeys")
def test_another_data_set_offers_the_models_that_fit(page):
    box(page, "Data set").select_option("adult")
    expect(box(page, "Model")).to_have_value("logistic")
    expect(box(page, "Model").locator("option")).to_have_count(1)
    expect(page.locator('[data-note="dataset"]')).to_contain_text("32,561 records")


@pytest.mark.long("more journeys")
def test_only_accountants_that_have_an_answer_are_offered(page):
    choice = box(page, "Accountant")
    expect(choice.locator('option[value="zcdp"]')).to_have_count(0)
    everyone = TrainingConfig(dataset="mnist", steps=1).sample_size
    box(page, "Expected batch size qN").fill(str(everyone))
    expect(choice.locator('option[value="zcdp"]')).to_have_count(1)
    choice.select_option("zcdp")
    expect(planned(page)).not_to_have_text("–")
    page.wait_for_url("**accountant=zcdp*")
    box(page, "Expected batch size qN").fill("256")
    error = page.locator('[data-field="accountant"] .error')
    expect(error).to_contain_text("zCDP is not amplified by sampling")
    choice.select_option("rdp")
    expect(error).to_be_hidden()
    expect(choice.locator('option[value="zcdp"]')).to_have_count(0)
    expect(choice).to_have_value("rdp")


@pytest.mark.long("more journeys")
def test_after_a_preset_its_data_sets_other_models_are_still_offered(page):
    page.locator('[data-preset="mnist-cnn"]').click()
    expect(box(page, "Model").locator("option")).not_to_have_count(1)


def test_a_preset_fills_the_form_and_the_address_without_leaving_the_page(page):
    preset = page.locator('[data-preset="adult"]')
    preset.click()
    expect(preset).to_have_attribute("aria-current", "true")
    page.wait_for_url("**dataset=adult*")
    run = recorded("adult")
    size = str(run.config.expected_batch_size)
    expect(box(page, "Expected batch size qN")).to_have_value(size)
    reached = run.summary["test_accuracy"]
    text = f"recorded, {100 * reached:.1f} %"
    expect(page.locator(".accuracy-box")).to_contain_text(text)
    expect(page.locator('.preset-cards [tabindex="0"]')).to_have_count(1)
    focus(preset)
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Enter")
    left = page.locator('[data-preset="mnist-pixels"]')
    expect(left).to_have_attribute("aria-current", "true")
    box(page, "Clipping bound C").fill("0.25")
    expect(page.locator(".preset-cards [aria-current]")).to_have_count(0)


def test_a_bad_value_is_shown_at_its_field_and_everything_typed_stays(page):
    box(page, "Clipping bound C").fill("0.25")
    rate = box(page, "Learning rate η")
    rate.fill("fast")
    error = page.locator('[data-field="learning_rate"] .error')
    message = "Learning rate must be a number, got 'fast'."
    expect(error).to_have_text(message)
    expect(planned(page)).to_have_text("–")
    run_button(page).click()
    expect(rate).to_be_focused()
    page.reload()
    expect(rate).to_have_value("fast")
    expect(box(page, "Clipping bound C")).to_have_value("0.25")
    expect(error).to_have_text(message)
    rate.fill("4")
    expect(error).to_be_hidden()
    expect(planned(page)).to_have_text("3.00")


@pytest.mark.long("more journeys")
def test_an_answer_that_is_awaited_looks_so_and_what_is_typed_is_asked_once(page):
    size, error = (
        box(page, "Expected batch size qN"),
        page.locator('[data-field="expected_batch_size"] .error'),
    )
    size.fill("1,5")
    expect(error).to_contain_text("got '1,5'")
    held = []
    page.route(PLAN, lambda route: held.append(route))  # answered below
    size.fill("")
    page.keyboard.type("2048")
    expect(error).to_be_hidden()
    expect(page.locator(".plan .counting")).to_be_visible()
    expect(page.locator(".plan")).to_have_attribute("aria-busy", "true")
    expect(page.locator(".plan [data-truth]")).to_be_hidden()
    while not held:
        page.wait_for_timeout(10)
    for route in held:
        route.continue_()
    page.unroute(PLAN)
    expect(page.locator(".plan .counting")).to_be_hidden()
    expect(planned(page, "sample_rate")).to_have_text("0.0341")
    asked = [route.request.url for route in held]
    assert len(asked) == 1
    assert "expected_batch_size=2048&" in asked[0]


@pytest.mark.long("more journeys")
def test_without_script_the_form_checks_a_set_up(open_page):
    page = open_page(at(TINY), java_script_enabled=False)
    box(page, "Clipping bound C").fill("-2")
    page.get_by_role("button", name="Check these settings").click()
    page.wait_for_url("**max_grad_norm=-2*")
    error = page.locator('[data-field="max_grad_norm"] .error')
    expect(error).to_have_text("Clipping bound must be greater than 0, got -2.")
    expect(box(page, "Steps")).to_have_value("30")


@pytest.mark.long("more journeys")
def test_back_finds_the_settings_that_a_preset_replaced(open_page):
    page = open_page(at(SHORT | {"seed": 4321}))
    page.locator('[data-preset="mnist"]').click()
    expect(page.locator("#seed")).not_to_have_value("4321")
    page.go_back()
    expect(page.locator("#seed")).to_have_value("4321")
    expect(page.locator("#steps")).to_have_value(str(SHORT["steps"]))
    assert settings_in(page)["seed"] == "4321"
    page.go_forward()
    expect(page.locator('[data-preset="mnist"]')).to_have_attribute(
        "aria-current", "true"
    )
