"""The budget planner by hand and by key."""

import re
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import expect

from dpsgd_explorer.web.labs.planner import budget_map as budget_map
from dpsgd_explorer.web.labs.planner.question import BudgetQuestion, solve
from tests.browser.trainer import REFUSED, focus, planned, settings_in

PAGE = "/labs/planner/"


@pytest.fixture
def page(open_page):
    page = open_page(PAGE, color_scheme="light", expected=[REFUSED])
    expect(page.locator(".map-box > svg")).to_be_visible()
    expect(page.locator("[data-batches] tr")).to_have_count(5)
    return page


def box(page, label):
    return page.get_by_label(label, exact=True)


NOISE, EPOCHS, EPSILON = "Noise multiplier σ", "Epochs", "Budget ε"


@pytest.mark.long("more journeys")
def test_the_fifth_follows_as_the_slider_moves_by_key(page):
    before = float(box(page, NOISE).input_value())
    slider = page.get_by_label("Epochs, slider")
    focus(slider)
    page.keyboard.press("End")
    expect(box(page, EPOCHS)).to_have_value("100")
    expect(page.locator('[data-result="steps"]')).to_have_text("5,860")
    noise = float(box(page, NOISE).input_value())
    exact = solve(BudgetQuestion(epochs=100)).noise_multiplier
    assert before < exact <= noise <= exact + 1e-4
    expect(page.locator('[data-result="epsilon"]')).to_have_text("3.00")
    expect(page.locator("[data-conclusion]")).to_contain_text("100 epochs")


@pytest.mark.long("more journeys")
def test_what_is_solved_for_cannot_be_typed_and_the_rest_can(page):
    expect(box(page, NOISE)).not_to_be_editable()
    expect(box(page, EPSILON)).to_be_editable()
    focus(page.get_by_role("radio", name="σ"))
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    expect(page.get_by_role("radio", name="ε")).to_be_checked()
    expect(box(page, EPSILON)).not_to_be_editable()
    expect(box(page, NOISE)).to_be_editable()
    box(page, NOISE).fill("4")
    expect(page.locator('[data-result="epsilon"]')).not_to_have_text("3.00")
    expect(box(page, EPSILON)).to_have_value(re.compile(r"0\.\d+"))


@pytest.mark.long("more journeys")
@pytest.mark.parametrize(("symbol", "label"), [("batch", "Expected batch size qN")])
def test_the_batch_can_follow_too(page, symbol, label):
    page.get_by_role("radio", name=symbol).check(force=True)
    box(page, EPSILON).fill("1")
    expect(page.locator('[data-result="epsilon"]')).to_have_text("1.00")
    assert int(box(page, label).input_value()) < 1024


@pytest.mark.long("more journeys")
def test_pressing_on_the_map_walks_along_the_line(page):
    place = page.locator(".map-box").bounding_box()
    page.mouse.click(place["x"] + 0.8 * place["width"], place["y"] + 60)
    expect(box(page, EPOCHS)).not_to_have_value("20")
    expect(page.locator('[data-result="epsilon"]')).to_have_text("3.00")
    epochs = float(box(page, EPOCHS).input_value())
    assert 50 < epochs < 150
    before = page.locator("[data-conclusion]").inner_text()
    page.mouse.down()
    page.mouse.move(place["x"] + 0.3 * place["width"], place["y"] + 60)
    expect(page.locator("[data-conclusion]")).not_to_have_text(before)
    page.mouse.up()
    assert float(box(page, EPOCHS).input_value()) < 10


def test_train_this_opens_the_trainer_with_the_budget(page):
    box(page, EPSILON).fill("2")
    expect(page.locator('[data-result="epsilon"]')).to_have_text("2.00")
    page.get_by_role("link", name="Train this").click()
    expect(planned(page)).to_have_text("2.00")
    expect(page.get_by_label("Expected batch size qN", exact=True)).to_have_value(
        "1024"
    )


@pytest.mark.long("more journeys")
def test_the_plan_stands_in_the_address(page, open_page):
    box(page, EPOCHS).fill("50")
    page.wait_for_url("**epochs=50**")
    assert settings_in(page)["solve"] == "noise_multiplier"
    again = open_page(f"{PAGE}?{urlsplit(page.url).query}")
    noise = box(page, NOISE).input_value()
    expect(box(again, NOISE)).to_have_value(noise)


@pytest.mark.long("more journeys")
def test_what_does_not_go_together_is_told_at_its_field(page):
    box(page, "Delta δ").fill("0.01")
    expect(page.locator("#delta-error")).to_contain_text("must be below 1/N")
    expect(page.locator('[data-result="epsilon"]')).to_have_text("–")
    expect(page.get_by_role("link", name="Train this")).to_be_hidden()
    box(page, "Delta δ").fill("1e-6")
    expect(page.locator("#delta-error")).to_be_hidden()
    expect(page.locator('[data-result="epsilon"]')).to_have_text("3.00")


@pytest.mark.long("more journeys")
def test_other_data_is_planned_and_not_trained_here(page):
    box(page, "Records N").fill("50000")
    expect(page.get_by_role("link", name="Train this")).to_be_hidden()
    expect(page.locator("[data-remark]")).to_contain_text("choose the records")
    page.get_by_role("button", name="Adult income, 32,561").click()
    expect(page.get_by_role("link", name="Train this")).to_be_visible()


@pytest.mark.long("more journeys")
def test_the_map_as_a_table(page):
    page.get_by_role("button", name="Show as table").click()
    expect(page.locator("#map-table thead")).to_contain_text("ε = 3")
    assert page.locator("#map-table tbody tr").count() == budget_map.COLUMNS


@pytest.mark.long("more journeys")
def test_pointing_at_a_line_names_its_epsilon(page):
    named = page.locator(".map-box > svg text", has_text=re.compile("^ε = 3$"))
    expect(named).to_have_count(1)
    page.locator(".map-box").scroll_into_view_if_needed()
    place = page.locator(".map-box .handle").bounding_box()
    page.mouse.move(place["x"] - 20, place["y"] + place["height"] / 2)
    expect(named).to_have_count(2)
