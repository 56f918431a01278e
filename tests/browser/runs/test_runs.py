"""Runs that were made: listed, replayed, deleted."""

import pytest
from playwright.sync_api import expect

from dpsgd_explorer.accounting import ACCOUNTANTS
from tests.browser.conftest import TINY
from tests.browser.trainer import at, focus, points, run_to_the_end, status


@pytest.mark.long("more journeys")
def test_a_run_is_replayed_step_by_step_by_whoever_has_its_link(
    open_page, finished_run
):
    page = open_page(f"/runs/{finished_run['id']}/")
    expect(points(page)).to_have_count(10)
    expect(page.get_by_role("button", name="Delete this run")).to_have_count(0)
    slider = page.get_by_label("Step of the replay")
    expect(slider).to_have_value("30")
    focus(slider)
    page.keyboard.press("Home")
    expect(points(page)).to_have_count(0)
    expect(status(page, "epsilon")).to_have_text("0.00")
    page.get_by_role("button", name="Play").click()
    expect(points(page).nth(3)).to_be_attached()
    page.get_by_role("button", name="Pause").click()
    assert 0 < int(slider.input_value()) < 30
    expect(status(page)).to_have_text("Replay")
    focus(slider)
    page.keyboard.press("End")
    expect(status(page)).to_have_text("Finished")
    expect(points(page)).to_have_count(10)


LAUNCH = """async (config) => {
  const headers = {"Content-Type": "application/json"};
  const made = {method: "POST", headers, body: JSON.stringify(config)};
  const answer = await (await fetch("/api/v1/runs", made)).json();
  location.assign(answer.links.page);
}"""


@pytest.mark.long("more journeys")
def test_a_followed_run_says_at_its_end_what_it_spent_and_what_is_proven(open_page):
    page = open_page("/runs/")
    page.evaluate(LAUNCH, TINY | {"steps": 200, "seed": 8})
    expect(page.locator("h1")).to_contain_text("Adult income")
    expect(status(page)).to_have_text("Finished", timeout=60_000)
    expect(page.locator("[data-run-state]")).to_have_text("Finished")
    expect(page.locator("[data-audit]")).to_contain_text("own audit proves")
    expect(page.locator("[data-audit]")).to_contain_text("of all 200 steps")
    expect(page.locator("[data-spent]")).to_contain_text("ε = 1.00")


def test_a_run_is_listed_trained_again_named_and_deleted_with_an_undo(open_page):
    page = open_page(at(TINY | {"seed": 5}))
    run_to_the_end(page)
    page.locator("[data-latest-runs] th a").first.click()
    title = page.locator("h1").inner_text()
    assert title.startswith("Adult income, ε = 1 · ")
    assert "seed" not in title
    page.get_by_role("link", name="Train again with these settings").click()
    expect(page.get_by_label("Seed")).to_have_value("5")
    page.get_by_role("link", name="All runs").click()
    rows = page.locator("[data-runs] tbody tr")
    expect(rows).to_have_count(1)
    focus(page.get_by_role("button", name=f"Edit {title}"))
    page.keyboard.press("Enter")
    expect(page.get_by_label("Name", exact=True)).to_be_focused()
    page.keyboard.type("Mine")
    page.keyboard.press("Tab")
    page.keyboard.type("with a note")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(rows.get_by_role("link")).to_have_text("Mine")
    expect(rows).to_contain_text("with a note")
    focus(page.get_by_role("button", name="Star Mine"))
    page.keyboard.press("Space")
    star = page.locator("[data-star]")
    expect(star).to_have_attribute("aria-pressed", "true")
    focus(page.get_by_role("button", name="Delete Mine"))
    page.keyboard.press("Enter")
    undo = page.get_by_role("button", name="Undo deleting Mine")
    expect(undo).to_be_focused()
    expect(rows).to_have_count(0)
    page.keyboard.press("Enter")
    expect(rows).to_have_count(1)
    expect(star).to_have_attribute("aria-pressed", "true")
    page.locator("summary", has_text="Delete all my data").click()
    page.get_by_role("button", name="Delete all of it").click()
    expect(page.locator("[data-said]")).to_contain_text("Deleted 1 run with its log")
    expect(page.locator("[data-runs]")).to_contain_text("You have no runs yet")


@pytest.mark.long("more journeys")
def test_another_accountant_redraws_a_finished_run_without_training_it_again(
    open_page, finished_run
):
    own = finished_run["config"]["accountant"]
    page = open_page(f"/runs/{finished_run['id']}/")
    expect(points(page)).to_have_count(10)
    spent = status(page, "epsilon").inner_text()
    ticks = page.locator(".gauge").text_content()
    choice = page.get_by_label("ε counted by", exact=True)
    expect(choice).to_have_value(own)
    silent = {own, "zcdp", "glw"}  # no sampling; the same number as the exact one
    for other in (name for name in ACCOUNTANTS if name not in silent):
        choice.select_option(other)
        expect(page.locator("[data-recount-note]")).to_contain_text("not trained again")
        truth = page.locator("[data-terms] [data-truth]")
        expect(truth).to_have_text(ACCOUNTANTS[other].status)
        expect(status(page, "epsilon")).not_to_have_text(spent)
        expect(points(page)).to_have_count(10)
    focus(page.get_by_label("Step of the replay"))
    page.keyboard.press("Home")
    expect(status(page, "epsilon")).to_have_text("0.00")
    choice.select_option(own)
    focus(page.get_by_label("Step of the replay"))
    page.keyboard.press("End")
    expect(status(page, "epsilon")).to_have_text(spent)
    expect(page.locator(".gauge")).to_have_text(ticks)


@pytest.mark.long("more journeys")
def test_a_finished_run_is_taken_along(open_page, finished_run, axe, tmp_path):
    for size, scheme in (((1280, 844), "light"), ((390, 844), "dark")):
        page = open_page(f"/runs/{finished_run['id']}/", size=size, color_scheme=scheme)
        expect(points(page)).to_have_count(10)
        for name in ("Privacy statement to paste", "Citation, BibTeX"):
            focus(page.locator("summary", has_text=name))
            page.keyboard.press("Enter")
        expect(page.locator("#privacy-statement")).to_contain_text(
            "Unit: one training record"
        )
        expect(page.get_by_label("BibTeX")).to_contain_text("@misc{abadi2016,")
        page.evaluate(axe)
        faults = page.evaluate("() => axe.run(document.querySelector('.run-details'))")
        assert [fault["id"] for fault in faults["violations"]] == []
        assert not page.evaluate("document.documentElement.scrollWidth > innerWidth")
    chart = page.locator('[data-chart="accuracy"]')
    for place, name, start in (
        (page.locator("[data-take-along]"), "PNG", b"\x89PNG\r\n\x1a\n"),
        (chart, "SVG", b"<svg "),
        (chart, "PNG", b"\x89PNG\r\n\x1a\n"),
    ):
        with page.expect_download() as saved:
            place.get_by_role("button", name=name).click()
        file = tmp_path / "file"
        saved.value.save_as(file)
        assert file.read_bytes().startswith(start)
    with page.expect_download() as saved:
        page.get_by_role("link", name="Trained weights").click()
    saved.value.save_as(tmp_path / "weights")
    weights = (tmp_path / "weights").read_bytes()
    length = int.from_bytes(weights[:8], "little")
    assert b'"receipt"' in weights[8 : 8 + length]
