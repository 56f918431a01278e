"""The trainer with a run: started, watched, stopped, come back to."""

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import TINY
from tests.browser.trainer import (
    LONG,
    SHORT,
    at,
    focus,
    planned,
    points,
    run_button,
    run_to_the_end,
    settings_in,
    status,
    unfold,
)

NEXT = "next in line"

DIVERGING = {
    "model": "mlp",
    "private": "false",
    "expected_batch_size": 128,
    "steps": 40,
    "learning_rate": 10_000,
    "evaluations": 1,
}
WATCH_FOR_SHIFTS = """() => {
  globalThis.moved = 0;
  new PerformanceObserver((list) => {
    for (const shift of list.getEntries()) globalThis.moved += shift.value;
  }).observe({type: "layout-shift"});
}"""
EVALUATIONS_IN_THE_LOG = """async () => {
  const id = new URLSearchParams(location.hash.slice(1)).get("run");
  const log = await (await fetch(`/api/v1/runs/${id}/events.json?limit=5000`)).json();
  return log.events.filter(({kind}) => kind === "evaluation").length;
}"""


# In every frame, the label at the last point has the accuracy of the status bar.
WATCH_THE_CLOCK = """() => {
  globalThis.apart = [];
  const look = () => {
    const bar = document.querySelector('[data-status="accuracy"]').textContent;
    const labels = [...document.querySelectorAll(".accuracy-box .annotation")];
    const label = labels.find((one) => one.textContent.startsWith("private, "));
    if (label && label.textContent !== `private, ${bar}`) {
      globalThis.apart.push([label.textContent, bar]);
    }
    requestAnimationFrame(look);
  };
  look();
}"""


def test_a_run_is_watched_from_the_key_to_the_last_point_and_found_again(open_page):
    page = open_page(at(SHORT))
    unfold(page)
    page.get_by_role("button", name="New seed").click()
    seed = page.get_by_label("Seed").input_value()
    expect(planned(page)).to_have_text("1.00")
    expect(page.locator(".accuracy-box .main-svg").first).to_be_visible()
    page.wait_for_load_state("networkidle")
    page.evaluate(WATCH_FOR_SHIFTS)
    page.evaluate(WATCH_THE_CLOCK)

    focus(run_button(page))
    page.keyboard.press("Enter")
    seen = [0]
    while status(page).inner_text() != "Finished":
        seen.append(points(page).count())
        page.wait_for_timeout(40)
    assert seen == sorted(seen)

    expect(run_button(page)).to_be_focused()
    expect(points(page)).to_have_count(page.evaluate(EVALUATIONS_IN_THE_LOG))
    expect(status(page, "epsilon")).to_have_text("1.00")
    expect(status(page, "timeName")).to_have_text("Time taken")
    accuracy = status(page, "accuracy").inner_text()
    assert float(accuracy.removesuffix(" %")) > 80
    expect(page.locator("[data-announce]")).to_contain_text("Finished, step 400 of 400")
    expect(page.locator('[data-chart="accuracy"] h2')).to_contain_text(accuracy)
    expect(page.locator("[data-latest-runs]")).to_contain_text(accuracy)
    assert page.evaluate("() => globalThis.moved") < 0.02
    assert page.evaluate("() => globalThis.apart") == []

    assert settings_in(page)["seed"] == seed
    page.reload()
    expect(status(page)).to_have_text("Finished")
    expect(status(page, "accuracy")).to_have_text(accuracy)
    expect(page.get_by_label("Seed")).to_have_value(seed)


def test_a_launch_asks_for_nothing_that_the_page_knows(open_page):
    """Neither for the plan of its settings nor for the run that POST describes."""
    page = open_page(at(SHORT))
    page.wait_for_load_state("networkidle")
    asked = []
    page.on("request", lambda request: asked.append((request.method, request.url)))
    run_to_the_end(page)
    names = [
        (method, url.split("/api/v1/")[1].split("?")[0])
        for method, url in asked
        if "/api/v1/" in url
    ]
    run = page.url.split("#run=")[1]
    assert names[:2] == [("POST", "runs"), ("GET", f"runs/{run}/events")]
    assert not {("GET", "privacy/plan"), ("GET", f"runs/{run}")} & {*names}
    expect(page.get_by_label("Clipping bound C", exact=True)).to_have_value("0.5")


@pytest.mark.long("more journeys")
def test_a_run_grows_as_it_trains_another_waits_its_turn_and_it_is_stopped(open_page):
    first = open_page(at(LONG | {"evaluations": 100}))
    run_button(first).click()
    expect(status(first)).to_have_text("Training")
    for _ in range(3):
        expect(points(first)).not_to_have_count(points(first).count())
    second = open_page(at(TINY))
    run_button(second).click()
    expect(status(second)).to_have_text("Queued")
    expect(status(second, "detail")).to_have_text(NEXT)
    first.get_by_role("button", name="Stop run").click()
    expect(status(first)).to_have_text("Stopped")
    expect(run_button(first)).to_be_visible()
    expect(first.locator("[data-latest-runs]")).to_contain_text("Stopped")
    expect(status(second)).to_have_text("Finished")


@pytest.mark.long("more journeys")
def test_a_diverging_run_says_why_and_one_without_privacy_has_no_budget(open_page):
    page = open_page(at(DIVERGING))
    expect(planned(page)).to_have_text("∞")
    expect(page.get_by_role("radio", name="ε", exact=True)).to_be_disabled()
    run_button(page).click()
    expect(status(page)).to_have_text("Failed")
    expect(page.locator("[data-failure]")).to_contain_text("The run diverged")
    expect(page.locator("[data-failure]")).to_contain_text("Lower learning_rate")
    expect(status(page, "epsilon")).to_have_text("∞")
    expect(page.locator("[data-gauge]")).to_contain_text("ε = ∞")
    assert "NaN" not in page.locator(".panel").inner_text()


@pytest.mark.long("more journeys")
def test_a_page_that_gets_no_stream_polls_the_log(serve, open_page):
    threads_for_pages_only = serve(DPSGD_WEB_THREADS="32")
    page = open_page(at(TINY), at=threads_for_pages_only, expected=["status of 503"])
    run_to_the_end(page)
    expect(status(page, "epsilon")).to_have_text("1.00")
