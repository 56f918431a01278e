"""One visit in Firefox: a picture moved, a run trained, its page and a lab opened.

All other browser tests are Chromium's.
"""

from urllib.parse import urlencode

import pytest

from tests.browser.conftest import TINY
from tests.browser.firefox import started_firefox

pytestmark = pytest.mark.long("more journeys")
RIGHT = "\ue014"
WIDE = "document.documentElement.scrollWidth <= innerWidth"


def text(selector):
    return f"document.querySelector({selector!r}).textContent"


@pytest.fixture
def firefox(tmp_path):
    with started_firefox(tmp_path) as browser:
        yield browser


def test_a_visit_in_firefox_ends_with_a_trained_run(firefox, address):
    firefox.open(f"{address}/")
    slider = 'main input[type="range"]'
    before = firefox.value(text("main output"))
    firefox.value(f"document.querySelector('{slider}').focus()")
    firefox.press(RIGHT)
    firefox.wait_for(f"{text('main output')} !== {before!r}")
    assert firefox.value(WIDE)

    firefox.open(f"{address}/learn/dp-concepts/")
    firefox.wait_for("document.querySelectorAll('math').length > 0")
    firefox.wait_for("document.querySelectorAll('[data-live] svg').length > 0")

    firefox.open(f"{address}/train/?{urlencode(TINY)}")
    firefox.click("[data-run]")
    firefox.wait_for(text('[data-status="state"]'), "Finished")
    dots = "document.querySelectorAll('.accuracy-box .point').length"
    firefox.wait_for(f"{dots} >= {TINY['evaluations']}")
    assert firefox.value(text('[data-status="epsilon"]')) == "1.00"

    latest = "document.querySelector('[data-latest-runs] th a')?.href ?? ''"
    firefox.wait_for(f"({latest}) !== ''")
    firefox.open(firefox.value(latest))
    firefox.wait_for(text('[data-status="state"]'), "Finished")
    firefox.open(f"{address}/labs/accountants/")
    firefox.wait_for("document.querySelectorAll('.race-box .line').length > 3")
    assert firefox.faults == []
