"""Groups in the list of runs, unfolded by hand and by keyboard."""

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import TINY
from tests.browser.site.test_pages import in_both_themes, too_narrow
from tests.browser.trainer import focus

pytestmark = pytest.mark.long("more journeys")
SWEEP = {
    "purpose": "sweep",
    "base": TINY | {"steps": 2},
    "variations": [{"learning_rate": rate} for rate in (1, 2, 4)],
}
LAUNCH = """async (body) => {
  const answer = await fetch("/api/v1/groups", {
    method: "POST", headers: {"Content-Type": "application/json"}, body: JSON.stringify(body),
  });
  const group = await answer.json();
  await fetch(group.links.cancel, {method: "POST", headers: {"Content-Type": "application/json"}, body: "{}"});
}"""  # noqa: E501


@pytest.mark.parametrize("width", [1280, 390])
def test_a_group_is_unfolded_by_keyboard_and_stays_so(open_page, axe, width):
    page = open_page("/runs/", size=(width, 844))
    page.evaluate(LAUNCH, SWEEP)
    page.reload()
    shown = page.locator("tr.member")
    unfold = page.get_by_role("button", name="Show the 3 runs of Sweep, 3 runs")
    expect(unfold).to_have_attribute("aria-expanded", "false")
    expect(shown.first).to_be_hidden()
    focus(unfold)
    page.keyboard.press("Enter")
    expect(unfold).to_have_attribute("aria-expanded", "true")
    for i in range(3):
        expect(shown.nth(i)).to_be_visible()
    assert in_both_themes(page, axe) == []
    assert too_narrow(page) == []
    page.get_by_role("button", name="Delete η = 2").click()
    expect(shown).to_have_count(2)  # a list that is new keeps what was unfolded
    expect(shown.first).to_be_visible()
    page.get_by_role("button", name="Undo").click()
    expect(shown).to_have_count(3)
    expect(shown.first).to_be_visible()
    unfold.click()
    expect(shown.first).to_be_hidden()
    page.get_by_role("link", name="Sweep, 3 runs").click()
    expect(page.locator("h1")).to_have_text("Sweep: learning rate η")
    page.go_back()
    expect(page.locator("h1")).to_have_text("Runs")
