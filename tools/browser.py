"""Path of the browser for the browser tests and the site's benchmarks."""

from __future__ import annotations

import os
import shutil

#: The first is Chromium without windows, which needs half the CPU time.
BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")


def browser_path() -> str:
    """Return the path in ``CHROMIUM``, or of the first installed browser.

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
