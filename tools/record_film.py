"""Records static/step_film.webp: one DP-SGD step, from the short course's own frames.

Run as ``python -m tools.record_film``; it needs Chromium, and takes a minute. The
still picture, static/step_film_still.webp, is the last frame.
"""

from __future__ import annotations

import io
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

from PIL import Image
from playwright.sync_api import Page, sync_playwright
from werkzeug.serving import make_server

from tools.browser import browser_path

STATIC = Path(__file__).parents[1] / "static"
FILM, STILL = STATIC / "step_film.webp", STATIC / "step_film_still.webp"
SCENE = "/learn/short/#3"
WIDTH, HEIGHT = 1_280, 800  # px, of the page
MARGIN = 12  # px, around the picture
STEP_S, PER_SECOND, LAST_S = 9.0, 12, 3.0
END = 5  # of the slider
QUALITY = 60


@contextmanager
def _served() -> Iterator[str]:
    """Yields the address of the site, with an empty instance folder."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["DPSGD_INSTANCE_DIR"] = folder
        from dpsgd_explorer.web import create_app  # reads the environment

        server = make_server("127.0.0.1", 0, create_app(), threaded=True)
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.port}"
        finally:
            server.shutdown()
            thread.join()


def _frames(page: Page, address: str) -> Iterator[Image.Image]:
    """Yields the frames; ``address`` is the address of the site."""
    page.goto(address + SCENE)
    figure = page.locator("[data-scene=step] .see")
    slider = page.locator("[data-scene=step] [data-part=time]")
    figure.locator("svg").first.wait_for()
    page.evaluate("document.fonts.ready")
    box = figure.bounding_box()
    assert box is not None, "the scene is not shown"
    count = round(STEP_S * PER_SECOND)
    for number in range(count + 1):
        slider.evaluate(
            "(slider, value) => { slider.value = value;"
            " slider.dispatchEvent(new Event('input')); }",
            END * number / count,
        )
        page.evaluate("() => new Promise(requestAnimationFrame)")
        picture = page.screenshot(
            clip={
                "x": box["x"] - MARGIN,
                "y": box["y"] - MARGIN,
                "width": box["width"] + 2 * MARGIN,
                "height": box["height"] + 2 * MARGIN,
            },
            animations="disabled",
        )
        yield Image.open(io.BytesIO(picture)).convert("RGB")


def main() -> None:
    """Record the film and its still picture."""
    with _served() as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=browser_path(), args=["--no-sandbox"]
        )
        page = browser.new_page(
            viewport={"width": WIDTH, "height": HEIGHT}, reduced_motion="reduce"
        )
        frames = list(_frames(page, address))
        browser.close()
    first, *others = frames
    each = round(1000 / PER_SECOND)
    lengths = [each] * len(others) + [round(1000 * LAST_S)]
    first.save(
        FILM,
        save_all=True,
        append_images=others,
        duration=lengths,
        loop=1,
        quality=QUALITY,
        method=6,
    )
    frames[-1].save(STILL, quality=QUALITY, method=6)
    print(f"{FILM.name}: {first.size}, {len(frames)} frames, {FILM.stat().st_size} B")


if __name__ == "__main__":
    main()
