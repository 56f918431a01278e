"""The trainer in a browser: from a slider to the new ε, and a run with its charts.

Moves the slider of the target ``MOVES`` times for each batch size; the time of a move
is from its event to the new noise on the page.  A run is traced for ``WATCHED_S``
seconds while accuracy, gauge, norms and loss are drawn: updates per second, the busy
share of the main thread, and the longest task.
"""

from __future__ import annotations

import statistics
from typing import Any

from playwright.sync_api import CDPSession, Page, ViewportSize, sync_playwright

from benchmarks import record
from benchmarks.site.service import served
from tools.browser import browser_path

BATCHES = (7, 64, 512, 2048, 4096)
MOVES = 20
WATCHED_S = 8.0
RUN = "dataset=adult&model=logistic&noise_multiplier=1&expected_batch_size=256"
LONG = f"/train/?{RUN}&steps=20000&learning_rate=2&max_grad_norm=0.5&evaluations=100"
# Moves the slider once; returns the milliseconds until the page shows another noise.
MOVE = """(place) => new Promise((done) => {
  const find = (selector) => document.querySelector(selector);
  const slider = find('[data-slider="target_epsilon"]');
  const noise = find('.plan [data-plan="noise_multiplier"]');
  const [before, start] = [noise.textContent, performance.now()];
  const observer = new MutationObserver(() => {
    if (noise.textContent === before) return;
    observer.disconnect();
    done(performance.now() - start);
  });
  observer.observe(noise, {childList: true, characterData: true, subtree: true});
  slider.value = String(place);
  slider.dispatchEvent(new Event("input", {bubbles: true}));
})"""
SETTLED = '.plan:not([aria-busy="true"])'
WATCH = """() => {
  globalThis.watched = {rounds: 0, longest: 0};
  const plot = document.querySelector('.accuracy-box');
  let last = 0;
  new MutationObserver(() => {
    const now = performance.now();
    if (now - last < 60) return;  // the changes of one drawing come together
    last = now;
    globalThis.watched.rounds += 1;
  }).observe(plot, {childList: true, attributes: true, subtree: true});
  new PerformanceObserver((list) => {
    for (const {duration} of list.getEntries())
      globalThis.watched.longest = Math.max(globalThis.watched.longest, duration);
  }).observe({type: "longtask"});
}"""


def slider_times(page: Page, batch: int) -> list[float]:
    """Return the milliseconds of each move at a batch size."""
    page.goto(f"/train/?expected_batch_size={batch}")
    page.locator(".accuracy-box .main-svg").first.wait_for()
    times = []
    for move in range(MOVES):
        page.locator(SETTLED).wait_for()
        page.wait_for_timeout(150)
        times.append(page.evaluate(MOVE, 0.5 + 0.13 * move))
    return times


def watched_run(page: Page) -> dict[str, float]:
    """Return updates per second, busy share and longest task while a run is shown."""
    page.goto(LONG)
    page.locator(".accuracy-box .main-svg").first.wait_for()
    page.locator("[data-run]").click()
    page.locator('[data-status="accuracy"]', has_text="%").wait_for()
    page.wait_for_timeout(1000)
    profile = page.context.new_cdp_session(page)
    profile.send("Performance.enable", {"timeDomain": "threadTicks"})
    page.evaluate(WATCH)
    before, start = _worked(profile), page.evaluate("() => performance.now()")
    page.wait_for_timeout(1000 * WATCHED_S)
    worked = _worked(profile) - before
    seconds = (page.evaluate("() => performance.now()") - start) / 1000
    watched = page.evaluate("() => globalThis.watched")
    page.locator("[data-stop]").click()
    return {
        "updates_per_second": watched["rounds"] / seconds,
        "busy_share": worked / seconds,
        "longest_task_ms": watched["longest"],
    }


def _worked(profile: CDPSession) -> float:
    """Return the CPU seconds of the main thread."""
    metrics = profile.send("Performance.getMetrics")["metrics"]
    return float({one["name"]: one["value"] for one in metrics}["TaskDuration"])


def main() -> None:
    """Measure, print and write the results."""
    rows: list[dict[str, Any]] = []
    with served() as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path())
        size = ViewportSize(width=1280, height=900)
        page = browser.new_page(viewport=size, base_url=address)
        page.goto("/learn/")  # computes everything that a server computes only once
        for batch in BATCHES:
            times = slider_times(page, batch)
            late = statistics.quantiles(times, n=20)[-1]
            rows.append(
                {"batch": batch, "median_ms": statistics.median(times), "p95_ms": late}
            )
            print(
                f"batch {batch:5}: slider to new ε {rows[-1]['median_ms']:.0f} ms, "
                f"95 % within {late:.0f} ms"
            )
        run = watched_run(page)
        browser.close()
    print(
        f"run: {run['updates_per_second']:.1f} updates a second, main thread "
        f"{run['busy_share']:.0%} busy, longest task {run['longest_task_ms']:.0f} ms"
    )
    print(record.write("trainer", {"rows": rows, "run": run}))
