"""Writes static/site_preview.png, the picture in link previews of this site.

Run as ``python -m tools.draw_site_preview``; it needs playwright and Chromium.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from playwright.sync_api import sync_playwright

from dpsgd_explorer.web.content.site import DESCRIPTION, NAME
from dpsgd_explorer.web.figures.exports.share_card import HEIGHT, WIDTH
from dpsgd_explorer.web.figures.exports.site_preview import site_preview

PICTURE = Path(__file__).parents[1] / "static" / "site_preview.png"
FLAGS = ["--no-sandbox", "--disable-gpu", "--hide-scrollbars"]


def main() -> None:
    """Draw the picture in a browser and store it."""
    with sync_playwright() as playwright:
        chromium = shutil.which("chromium")
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
        svg = site_preview(NAME, DESCRIPTION)
        page.set_content(f"<style>body{{margin:0}}svg{{display:block}}</style>{svg}")
        page.screenshot(path=PICTURE)
        browser.close()


if __name__ == "__main__":
    main()
