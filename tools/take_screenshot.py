"""Take the screenshot in README.md: the trainer after its default run.

Run as ``python -m tools.take_screenshot http://127.0.0.1:8000``.
"""

from __future__ import annotations

import sys
from pathlib import Path

from playwright.sync_api import ViewportSize, sync_playwright

from tools.browser import browser_path

PICTURE = Path(__file__).parents[1] / "docs" / "images" / "train.png"
SIZE = ViewportSize(width=1280, height=960)
LONGEST_RUN_MS = 600_000


def take(address: str) -> None:
    """Press Run at ``address`` and take a screenshot when the run has ended."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=browser_path(), args=["--no-sandbox"]
        )
        page = browser.new_page(viewport=SIZE, device_scale_factor=1.5)
        page.goto(f"{address}/train/")
        page.get_by_role("button", name="Run", exact=True).click()
        page.get_by_text("Finished").first.wait_for(timeout=LONGEST_RUN_MS)
        page.wait_for_timeout(1000)  # until the last point is drawn
        page.screenshot(path=PICTURE)
        browser.close()


if __name__ == "__main__":
    take(sys.argv[1])
