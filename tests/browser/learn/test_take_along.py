"""Links to the state of a widget, and its picture, as a visitor copies them."""

import pytest
from playwright.sync_api import expect

from dpsgd_explorer.web.forms.starts import Choices
from dpsgd_explorer.web.hub.registry import WIDGETS

STATUS = "[data-take] [role=status]"
IS_PICTURE = """async () => {
  const [item] = await navigator.clipboard.read();
  const picture = await createImageBitmap(await item.getType("image/png"));
  return picture.width > 200 && picture.height > 100;
}"""


def other_state(rules):
    """Return a value for each rule, unlike the default of most widgets."""
    ends = [r.values[-1] if isinstance(r, Choices) else r.high for r in rules]
    return ",".join(f"{end:g}" for end in ends)


@pytest.mark.long("more journeys")
def test_a_copied_link_leads_to_the_same_state_of_every_widget(open_page):
    page = open_page("/glossary/", new_visitor=True)
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    site = page.url.removesuffix("/glossary/")
    for slug, widget in WIDGETS.items():
        query = {name: other_state(rules) for name, rules in widget.starts.items()}
        address = "&".join(f"{name}={query[name]}" for name in sorted(query))
        page.goto(f"{site}/embed/{slug}/?{address}")
        expect(page.locator("[data-state=moves]")).to_be_visible()
        page.get_by_role("button", name="Copy link to this state").click()
        expect(page.locator(STATUS)).to_have_text("Link copied.")
        copied = page.evaluate("navigator.clipboard.readText()")
        assert copied == page.url.removesuffix("?"), slug
        page.get_by_role("button", name="Copy picture").click()
        expect(page.locator(STATUS)).to_have_text("Picture copied.")
        assert page.evaluate(IS_PICTURE), slug


@pytest.mark.long("more journeys")
def test_without_a_clipboard_the_link_is_shown_and_the_picture_is_saved(open_page):
    page = open_page("/embed/people/", new_visitor=True)
    page.evaluate("Object.defineProperty(navigator, 'clipboard', {value: undefined})")
    page.get_by_role("button", name="Copy link to this state").click()
    expect(page.locator(STATUS)).to_contain_text("/embed/people/?")
    with page.expect_download() as saved:
        page.get_by_role("button", name="Copy picture").click()
    assert saved.value.suggested_filename == "people.png"
