"""From a user's move to the picture: CPU time of the page's main thread.

Opens each widget of the Learning Hub on its own page, in headless Chromium.  Moves each
slider and handle of the widget ``MOVES`` times with the keyboard and redraws it.
"""

from __future__ import annotations

import statistics
from typing import Any

from playwright.sync_api import CDPSession, Locator, Page, sync_playwright

from benchmarks import record
from benchmarks.site.service import served
from dpsgd_explorer.web.hub.registry import WIDGETS
from tools.browser import browser_path

MOVES = 12
MOVABLE = 'input[type="range"], [role="slider"]'
DRAWN = """() => new Promise((done) =>
  requestAnimationFrame(() => requestAnimationFrame(done)))"""


def measure(page: Page, slug: str) -> list[dict[str, Any]]:
    """Return a row per slider and handle of the shown widget."""
    profile = page.context.new_cdp_session(page)
    profile.send("Performance.enable", {"timeDomain": "threadTicks"})
    found = page.locator(MOVABLE).locator("visible=true").all()
    return [_moved(page, profile, slug, control) for control in found]


def _moved(
    page: Page, profile: CDPSession, slug: str, control: Locator
) -> dict[str, Any]:
    name = control.evaluate("one => one.ariaLabel || one.labels?.[0]?.innerText || ''")
    control.focus()
    spent = []
    for move in range(MOVES):
        before = _worked(profile)
        page.keyboard.press("ArrowLeft" if move < MOVES / 2 else "ArrowRight")
        page.evaluate(DRAWN)
        spent.append(1000 * (_worked(profile) - before))
    return {
        "widget": slug,
        "control": " ".join(name.split()),
        "median_ms": statistics.median(spent),
        "longest_ms": max(spent),
    }


def _worked(profile: CDPSession) -> float:
    """Return the CPU seconds of the main thread."""
    metrics = profile.send("Performance.getMetrics")["metrics"]
    return float({one["name"]: one["value"] for one in metrics}["TaskDuration"])


def main() -> None:
    """Measure, print and write the results."""
    rows = []
    with served() as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path())
        page = browser.new_page(viewport={"width": 1280, "height": 2000})
        for slug in WIDGETS:
            page.goto(f"{address}/embed/{slug}/")
            page.locator('[data-state="moves"]').wait_for()
            rows += measure(page, slug)
        browser.close()
    for row in rows:
        print(
            f"{row['widget']:24} {row['control'][:40]:40} "
            f"{row['median_ms']:6.0f} {row['longest_ms']:6.0f} ms"
        )
    print(record.write("widgets", {"rows": rows}))
