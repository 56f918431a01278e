"""The trainer as a hand uses it: what the browser tests share."""

import re
from urllib.parse import parse_qs, urlencode, urlsplit

from playwright.sync_api import expect

from tests.browser.conftest import TINY

SHORT = TINY | {"steps": 400, "evaluations": 40}
LONG = TINY | {"steps": 50_000, "expected_batch_size": 256}
REFUSED = "status of 422"  # a browser logs every answer of that kind as an error


def at(settings):
    """Return where the trainer shows these settings."""
    return f"/train/?{urlencode(settings)}"


def settings_in(page):
    """Return the settings that the address carries."""
    return {name: text for name, [text] in parse_qs(urlsplit(page.url).query).items()}


def unfold(page):
    """Open the list of all settings; at first five are in view."""
    fold = page.locator("[data-all-settings]")
    if fold.get_attribute("open") is None:
        fold.locator("> summary").click()


def run_button(page):
    return page.get_by_role("button", name="Run", exact=True)


def status(page, cell="state"):
    """Return a cell of the status bar."""
    return page.locator(f'[data-status="{cell}"]')


def planned_noise(page):
    """Return the noise of the plan that a run takes, once it stands there."""
    text = planned(page, "noise_multiplier")
    expect(text).to_have_text(re.compile(r"^[0-9.]+$"))
    return float(text.inner_text())


def planned(page, name="epsilon"):
    """Return where the page says what the settings will spend or do."""
    return page.locator(f'.plan [data-plan="{name}"]').first


def points(page):
    """Return the points of the accuracy curve."""
    return page.locator(".accuracy-box .scatterlayer .trace:first-child .point")


def focus(place):
    """Put the keyboard where the next keys go, once the page has shown that place.

    Keys pressed before would go to the page itself and be lost in silence.
    """
    expect(place).to_be_visible()
    place.focus()
    expect(place).to_be_focused()


def choose(place, option):
    """Choose an option of a list by the arrow keys.

    Letters would not do: a list forgets those typed a second ago, and begins anew.
    """
    focus(place)
    options = place.locator("option").all_inner_texts()
    chosen = place.evaluate("one => one.selectedIndex")
    steps = options.index(option) - chosen
    for _ in range(abs(steps)):
        place.press("ArrowDown" if steps > 0 else "ArrowUp")
    expect(place.locator("option:checked")).to_have_text(option)


def run_to_the_end(page):
    run_button(page).click()
    expect(status(page)).to_have_text("Finished")


SETTLED = """() => Promise.allSettled(document.getAnimations()
  .filter((one) => one.effect.getComputedTiming().endTime < Infinity)
  .map((one) => one.finished))"""


def violations(page, axe):
    """Return the rules of axe that the whole page breaks.

    It waits until colours that change with the theme have changed: halfway there, the
    letters of a button have its old ground.
    """
    page.evaluate(axe)
    page.evaluate(SETTLED)
    found = page.evaluate("() => axe.run(document, {resultTypes: ['violations']})")
    return [fault["id"] for fault in found["violations"]]


def is_too_wide(page):
    """Return whether the page scrolls sideways."""
    return page.evaluate("document.documentElement.scrollWidth > innerWidth")
