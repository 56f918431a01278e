"""The grips of widgets before they can be drawn, and after."""

import re

import pytest
from playwright.sync_api import expect

HIDDEN_WIDGETS = """
  const sheet = new CSSStyleSheet();
  sheet.replaceSync("[data-widget] { display: none; }");
  document.adoptedStyleSheets = [sheet];
"""  # without a width nothing is drawn


@pytest.mark.long("more journeys")
def test_a_grip_appears_with_its_value(open_page):
    page = open_page("/glossary/", new_visitor=True)
    page.add_init_script(HIDDEN_WIDGETS)
    page.goto(page.url.replace("/glossary/", "/embed/one-odd-record/"))
    grip = page.locator("#one-odd-record .grip")
    expect(grip).to_have_attribute("visibility", "hidden")
    expect(grip).not_to_have_attribute("aria-valuenow", re.compile(""))
    page.evaluate("() => { document.adoptedStyleSheets = []; }")
    expect(grip).to_be_visible()
    expect(grip).to_have_attribute("aria-valuenow", re.compile(r"^-?\d"))
