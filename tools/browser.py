"""Finds the browser that the browser tests and the benchmarks of the site drive."""

from __future__ import annotations

import os
import shutil

#: The first is Chromium without windows: it takes half the time of a core.
BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")


def browser_path() -> str:
    """Returns the path in ``CHROMIUM``, or of the first installed browser.

    Raises:
        FileNotFoundError: No browser is installed.
    """
    installed = next(filter(None, map(shutil.which, BROWSERS)), None)
    path = os.environ.get("CHROMIUM", installed)
    if path is None:
        raise FileNotFoundError(
            "no browser: install Chromium, or set CHROMIUM to its path."
        )
    return path
