"""One headless browser for every test that looks at a page."""

import contextlib
import os
import shutil
from pathlib import Path

import pytest
from playwright.sync_api import expect, sync_playwright

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-default-apps",
    "--disable-extensions",
    "--disable-dev-shm-usage",
]
PATIENCE_MS = 30_000
BROWSER_TESTS = Path(__file__).parent / "browser"


def pytest_collection_modifyitems(items):
    """Mark the browser tests, and let them come last: what is quick tells first."""
    for item in items:
        if BROWSER_TESTS in item.path.parents:
            item.add_marker(pytest.mark.browser)
    items.sort(key=lambda item: BROWSER_TESTS in item.path.parents)


@pytest.fixture(scope="session")
def launch():
    """Start a browser, with more in its environment if so asked."""
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    path = os.environ.get("CHROMIUM", found)
    if path is None:
        pytest.fail("no browser: install Debian's chromium, or set CHROMIUM to one.")
    expect.set_options(timeout=PATIENCE_MS)
    with sync_playwright() as playwright, contextlib.ExitStack() as started:

        def launch(**environment):
            browser = playwright.chromium.launch(
                executable_path=path, args=FLAGS, env=os.environ | environment
            )
            started.callback(browser.close)
            return browser

        yield launch


@pytest.fixture(scope="session")
def browser(launch):
    return launch()
