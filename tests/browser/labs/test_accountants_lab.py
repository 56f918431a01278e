"""The accountant race by hand and by key."""

import re
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import expect

from dpsgd_explorer import accounting
from dpsgd_explorer.accounting import ACCOUNTANTS
from dpsgd_explorer.experiments.accountant_words import LABELS
from dpsgd_explorer.web.questions.accountant_race import racers
from tests.browser.trainer import REFUSED, focus, settings_in

PAGE = "/labs/accountants/"
FIRST = next(iter(ACCOUNTANTS))


@pytest.fixture
def page(open_page):
    page = open_page(PAGE, color_scheme="light", expected=[REFUSED])
    expect(page.locator(".race-box > svg")).to_be_visible()
    return page


def lines(page):
    return page.locator(".race-box > svg .line")


def row(page, name):
    rows = page.locator("[data-ranking] tr")
    return rows.filter(has_text=LABELS[name]).first


@pytest.mark.long("more journeys")
def test_go_runs_the_race_again_by_key(page):
    expect(lines(page).first).to_be_attached()
    before = page.locator("[data-cursor]").input_value()
    focus(page.get_by_role("button", name="Go"))
    page.keyboard.press("Enter")
    expect(page.locator("[data-cursor]")).not_to_have_value(before)
    expect(page.locator("[data-cursor]")).to_have_value(before)


@pytest.mark.long("more journeys")
def test_the_table_reads_any_step_by_arrow_key(page):
    cursor = page.get_by_label("Read at step")
    focus(cursor)
    page.keyboard.press("Home")
    expect(page.locator("caption [data-at]")).to_have_text("1")
    expect(cursor).to_have_attribute("aria-valuetext", "step 1")
    page.keyboard.press("ArrowRight")
    expect(page.locator("caption [data-at]")).not_to_have_text("1")
    page.keyboard.press("End")
    expect(page.locator("caption [data-at]")).to_have_text("10,000")
    truth = accounting.epsilon(
        sample_rate=0.01, noise_multiplier=4, steps=10_000, delta=1e-5, accountant=FIRST
    )
    shown = row(page, FIRST).locator("td").first.inner_text()
    assert truth <= float(shown) <= truth * 1.001


@pytest.mark.long("more journeys")
def test_pointing_at_the_chart_reads_the_step(page):
    chart = page.locator(".race-box")
    chart.scroll_into_view_if_needed()
    box = chart.bounding_box()
    page.mouse.move(box["x"] + 0.3 * box["width"], box["y"] + 0.5 * box["height"])
    expect(page.locator("caption [data-at]")).not_to_have_text("10,000")
    listed = page.locator(".race-box > svg text")
    expect(listed.filter(has_text=re.compile(r"^step \d"))).to_have_count(1)
    page.mouse.move(box["x"] - 20, box["y"] - 20)
    expect(listed.filter(has_text=re.compile(r"^step \d"))).to_have_count(0)


@pytest.mark.long("more journeys")
def test_settings_stand_in_the_address_and_are_read_from_it(page, open_page):
    page.get_by_label("Noise multiplier σ", exact=True).fill("2")
    expect(page.locator("[data-chart] .chart-head")).to_contain_text("2")
    page.wait_for_url("**noise_multiplier=2**")
    again = open_page(f"{PAGE}?{urlsplit(page.url).query}")
    expect(again.get_by_label("Noise multiplier σ", exact=True)).to_have_value("2")


@pytest.mark.long("more journeys")
def test_batch_and_records_set_the_rate(page):
    page.get_by_label("As a batch of").fill("256")
    rate = page.get_by_label("Sample rate q", exact=True)
    expect(rate).to_have_value("0.00426667")
    page.get_by_label("among").fill("25600")
    expect(rate).to_have_value("0.01")


@pytest.mark.long("more journeys")
def test_a_surprise_fills_the_settings(page):
    link = page.locator(".presets [data-preset]").last
    link.click()
    expect(link).to_have_attribute("aria-current", "true")
    expect(page.get_by_label("Steps T", exact=True)).to_have_value("100000")


@pytest.mark.long("more journeys")
def test_a_wrong_rate_is_told_at_its_field_and_the_rest_stays(page):
    page.get_by_label("Sample rate q", exact=True).fill("2")
    expect(page.locator("#sample_rate-error")).to_have_text(
        "Sample rate must be at most 1, got 2."
    )
    page.get_by_label("Sample rate q", exact=True).fill("0.02")
    expect(page.locator("#sample_rate-error")).to_be_hidden()


@pytest.mark.long("more journeys")
def test_forgetting_the_sampling_counts_every_record_in_every_step(page):
    box = page.get_by_label("we ignore that batches are sampled?")
    before = row(page, FIRST).locator("td").first.inner_text()
    box.check()
    expect(row(page, FIRST).locator("td").first).not_to_have_text(before)
    expect(page.locator("[data-forgotten]")).to_contain_text("instead of")
    assert settings_in(page)["forget"] == "true"


@pytest.mark.long("more journeys")
def test_of_shuffled_batches_nothing_is_claimed(page):
    page.get_by_label("batches are shuffled, yet counted as Poisson?").check()
    badges = page.locator("[data-ranking] .badge")
    expect(badges).to_have_text(["does not apply"] * len(racers()))
    expect(page.locator("[data-conclusion]")).to_contain_text("none of these numbers")


@pytest.mark.long("more journeys")
def test_the_whole_race_as_a_table_and_as_numbers(page):
    page.get_by_role("button", name="Show as table").click()
    expect(page.locator("#race-table tbody tr").first).to_contain_text("1")
    assert page.locator("#race-table tbody tr").count() > 20
    with page.expect_download() as saved:
        page.get_by_role("button", name="CSV").click()
    head = saved.value.path().read_text().splitlines()[0]
    assert head.startswith(f"step,{FIRST}")
    with page.expect_download() as saved:
        page.get_by_role("button", name="PNG").click()
    assert saved.value.path().read_bytes().startswith(b"\x89PNG")
