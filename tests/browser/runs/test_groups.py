"""Several runs at once: a sweep, seeds, a twin, by hand and by keyboard."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import TINY
from tests.browser.trainer import REFUSED, at, focus, is_too_wide, violations
from tests.conftest import PATIENCE_MS

NINE = "0.25 0.5 1 2 4 8 16 32 64"
ALL_MS = 2 * PATIENCE_MS  # several runs follow each other


def several(page, name):
    return page.get_by_role("button", name=name)


def test_a_setting_is_swept_by_its_name_and_cancelled_as_one(open_page):
    page = open_page(at(TINY | {"steps": 3000}), expected=[REFUSED])
    page.locator('label[for="learning_rate"]').click()
    values = page.get_by_label("Values", exact=True)
    expect(values).to_have_value("1 2 4 8 16")
    values.fill("-1 4 1e9")
    page.get_by_role("button", name="Start 9 runs").click()
    error = page.locator("[data-several-error]")
    expect(error).to_contain_text("Runs 1, 4, 7: learning rate must be greater than 0")
    expect(error).to_contain_text("runs 3, 6, 9: learning rate must be at most 10000")
    expect(values).to_be_focused()
    values.fill("1 2 4")
    page.get_by_role("button", name="Start 9 runs").click()
    expect(page.locator("h1")).to_have_text("Sweep: learning rate η")
    expect(page.locator("[data-multiples] li")).to_have_count(3)
    page.get_by_role("button", name="Cancel the sweep").click()
    expect(page.locator("[data-progress-words]")).to_have_text("All 9 runs have ended")
    expect(page.get_by_role("button", name="Cancel the sweep")).to_be_hidden()
    expect(page.locator('[data-cell="state"]').last).to_have_text("Stopped")
    page.go_back()
    expect(page.locator("#learning_rate")).to_have_value("4.0")


@pytest.mark.long("more journeys")
def test_nine_values_are_swept_by_keyboard_and_drawn_with_their_table(open_page, axe):
    page = open_page(at(TINY))
    focus(several(page, "Sweep a setting"))
    page.keyboard.press("Enter")
    expect(page.get_by_label("Setting", exact=True)).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.get_by_label("Values", exact=True)).to_be_focused()
    page.keyboard.press("Control+a")
    page.keyboard.type(NINE)
    page.get_by_label("Runs of each value").select_option("1")
    page.get_by_label("Values", exact=True).focus()
    assert violations(page, axe) == []
    page.keyboard.press("Enter")
    expect(page.locator("[data-multiples] li")).to_have_count(9)
    progress = page.locator("[data-progress-words]")
    expect(progress).to_have_text("All 9 runs have ended", timeout=ALL_MS)
    expect(page.locator("[data-conclusion]")).to_contain_text("ends highest, at")
    for name in ("accuracy", "epsilon"):
        dots = page.locator(f'[data-figure="{name}"] circle')
        expect(dots).to_have_count(9)
    rows = page.locator("tbody tr")
    expect(rows).to_have_count(9)
    for cell in ("epsilon", "accuracy", "seconds"):
        texts = page.locator(f'[data-cell="{cell}"]').all_inner_texts()
        assert all(re.fullmatch(r"[\d.]+( %)?", text) for text in texts), texts
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        for width in (1280, 390):
            page.set_viewport_size({"width": width, "height": 844})
            assert violations(page, axe) == [], (scheme, width)
            assert not is_too_wide(page)
    page.locator("tbody th a").nth(4).click()
    expect(page.locator("h1")).to_have_text("η = 4")


@pytest.mark.long("more journeys")
def test_a_twin_is_started_by_keyboard_and_its_loss_is_split(open_page, axe):
    page = open_page(at(TINY), size=(390, 844), color_scheme="dark")
    focus(several(page, "Three-way twin"))
    page.keyboard.press("Enter")
    expect(page.get_by_label("private", exact=True)).to_be_focused()
    expect(page.get_by_label("clipped only")).to_have_value("")  # not tuned there
    expect(page.get_by_label("ordinary")).to_have_value("2")
    assert violations(page, axe) == []
    page.keyboard.press("Tab")
    page.keyboard.type("16")
    page.keyboard.press("Tab")
    page.keyboard.press("Control+a")
    page.keyboard.type("0.5")
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("Three-way twin")
    progress = page.locator("[data-progress-words]")
    expect(progress).to_have_text("All 3 runs have ended", timeout=ALL_MS)
    expect(page.locator("[data-conclusion]")).to_have_text(
        re.compile(
            r"Of [\d.]+ points .*clipping takes .* noise|Not comparable|No loss shows"
        )
    )
    expect(page.locator('[data-cell="epsilon"]')).to_have_text(["1.00", "∞", "∞"])
    expect(page.locator("tbody th")).to_have_text(
        ["private, η = 4", "clipped only, η = 16", "ordinary, η = 0.5"]
    )
    is_split = "takes" in page.locator("[data-conclusion]").inner_text()
    split = page.locator('[data-figure="split"]')
    expect(split).to_be_visible() if is_split else expect(split).to_be_hidden()
    assert violations(page, axe) == []
    assert not is_too_wide(page)


@pytest.mark.long("more journeys")
def test_seeds_are_started_drawn_saved_and_deleted(open_page, tmp_path):
    page = open_page(at(TINY | {"seed": 3}))
    several(page, "5 seeds").click()
    expect(page.get_by_label("Seeds", exact=True)).to_have_value("3 4 5 6 7")
    page.get_by_label("Seeds", exact=True).fill("3 4")
    page.get_by_role("button", name="Start 2 runs").click()
    expect(page.locator("h1")).to_have_text("The same settings, 2 seeds")
    said = page.locator("[data-conclusion]")
    expect(said).to_contain_text("luck alone moves a run", timeout=ALL_MS)
    for kind in ("SVG", "PNG"):
        with page.expect_download() as saved:
            page.get_by_role("button", name=kind).click()
        file = tmp_path / kind
        saved.value.save_as(file)
        start = file.read_bytes()[:5]
        assert start in (b"<svg ", b"\x89PNG\r")
    svg = (tmp_path / "SVG").read_text()
    assert "class=" not in svg  # its colours are written out
    assert "Mean" in svg
    page.locator("summary", has_text="Delete this group").click()
    page.get_by_role("button", name="Delete it").click()
    expect(page.locator("h1")).to_have_text("Runs")
    expect(page.locator("tbody tr")).to_have_count(0)


@pytest.mark.long("more journeys")
def test_a_group_that_is_deleted_in_another_tab_says_so(open_page):
    page = open_page(at(TINY | {"steps": 3000}), expected=["status of 404"])
    several(page, "5 seeds").click()
    page.get_by_role("button", name="Start 5 runs").click()
    expect(page.locator("h1")).to_have_text("The same settings, 5 seeds")
    page.evaluate(
        "fetch(location.pathname.replace('/groups/', '/api/v1/groups/').slice(0, -1),"
        " {method: 'DELETE'})"
    )
    expect(page.locator("[data-group-error]")).to_contain_text(
        "does not exist on this site"
    )
