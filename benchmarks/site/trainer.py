"""The trainer in a browser: from a slider to the new ε.

Moves the slider of the target ``MOVES`` times for each batch size; the time of a move
is from its event to the new noise on the page.
"""

from __future__ import annotations

import statistics
from typing import Any

from playwright.sync_api import Page, ViewportSize, sync_playwright

from benchmarks import record
from benchmarks.site.service import served
from tools.browser import browser_path

BATCHES = (7, 64, 512, 2048, 4096)
MOVES = 20
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
        browser.close()
    print(record.write("trainer", {"rows": rows}))
