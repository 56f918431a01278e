"""The charts of a finished run: axes, table, files, theme."""

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import TINY
from tests.browser.trainer import at, points, status


@pytest.fixture(scope="module")
def page(open_for_all, finished_run):
    page = open_for_all(f"{at(TINY)}#run={finished_run['id']}", color_scheme="light")
    expect(status(page)).to_have_text("Finished")
    expect(points(page)).to_have_count(10)
    return page


@pytest.mark.long("more journeys")
@pytest.mark.parametrize("axis", ["step", "epoch", "seconds"])
def test_the_other_axes_show_the_same_points(page, axis):
    page.get_by_role("radio", name=axis, exact=True).check(force=True)
    expect(page.locator(".accuracy-box .annotation", has_text=axis)).to_be_visible()
    expect(page.locator("[data-axis-name]")).to_contain_text(axis)
    expect(points(page)).to_have_count(10)
    page.get_by_role("radio", name="ε", exact=True).check(force=True)


@pytest.mark.long("more journeys")
def test_a_table_holds_what_the_chart_shows(page, finished_run):
    chart = page.locator('[data-chart="accuracy"]')
    chart.get_by_role("button", name="Show as table").click()
    expect(chart.locator("tbody tr")).to_have_count(10)
    reached = 100 * finished_run["summary"]["test_accuracy"]
    expect(chart.locator("tbody tr").last).to_contain_text(f"{reached:.2f} %")
    chart.get_by_role("button", name="Hide table").click()
    expect(chart.locator("tbody")).to_be_hidden()


@pytest.mark.long("more journeys")
def test_each_chart_is_saved_as_numbers_and_as_a_picture(page):
    heads = {
        "accuracy": "step,epsilon,seconds,test_accuracy,test_loss",
        "norms": "from,to,samples",
        "loss": "step,loss,test_loss",
    }
    for name, head in heads.items():
        chart = page.locator(f'[data-chart="{name}"]')
        with page.expect_download() as saved:
            chart.get_by_role("button", name="CSV").click()
        assert saved.value.path().read_text().splitlines()[0] == head
        with page.expect_download() as saved:
            chart.get_by_role("button", name="PNG").click()
        assert saved.value.path().read_bytes().startswith(b"\x89PNG")


@pytest.mark.long("more journeys")
def test_the_charts_follow_the_theme(page):
    line = page.locator(".accuracy-box .js-line").first
    expect(line).to_have_css("stroke", "rgb(0, 114, 178)")
    page.emulate_media(color_scheme="dark")
    expect(line).to_have_css("stroke", "rgb(86, 180, 233)")
    page.emulate_media(color_scheme="light")


def test_on_a_telephone_one_chart_shows_and_run_is_at_the_thumb(page):
    page.set_viewport_size({"width": 390, "height": 700})
    run = page.get_by_role("button", name="Run", exact=True).bounding_box()
    assert run["y"] + run["height"] <= 700
    assert run["height"] >= 40
    charts = page.locator("[data-chart]").all()
    assert [chart.is_visible() for chart in charts] == [True, False, False]
    page.get_by_role("radio", name="Gradients").check(force=True)
    assert [chart.is_visible() for chart in charts] == [False, True, False]
    expect(page.locator('[data-chart="norms"] .main-svg').first).to_be_visible()
    page.get_by_role("radio", name="Accuracy").check(force=True)
    page.set_viewport_size({"width": 1280, "height": 844})
