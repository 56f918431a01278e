"""Whatever stands in a box, the page stays alive and says what is wrong with it."""

import pytest
from playwright.sync_api import expect

from tests.browser.trainer import REFUSED, planned

# Each page with boxes, and what it answers there.
PAGES = {
    "/train/": ".plan",
    "/labs/accountants/": "[data-ranking]",
    "/labs/planner/": ".budget-results",
    "/labs/linear-regression/": "#errors h3",
    "/labs/engines/": ".run-block",
    "/labs/attack/": ".run-block",
}
# Boxes that may be empty.
OPTIONAL = {
    "/train/": {"stop_at_epsilon", "filter_epsilon", "widths", "clipping_heads"},
    "/labs/linear-regression/": {"steps", "learning_rate"},
    "/labs/attack/": {"canary_label"},
}
WRONG = ["", "0", "-1", "1e99", "abc", "1,5"]
NEVER_RIGHT = {"1e99", "abc", "1,5"}
# Each box is filled with each text, left, and read once its answer has come.
FILL_EACH_BOX = """async (texts) => {
  const busy = () => document.querySelector('[data-answer][aria-busy="true"]');
  const settled = async () => {
    do await new Promise((resolve) => setTimeout(resolve, 15)); while (busy());
  };
  const found = [];
  const fill = async (box, text) => {
    box.value = text;
    box.dispatchEvent(new Event("input", {bubbles: true}));
    box.dispatchEvent(new Event("change", {bubbles: true}));
    await settled();
    const [line] = box.getAttribute("aria-describedby").split(" ").slice(-1);
    const {hidden, textContent} = document.getElementById(line);
    found.push([box.id, text, hidden ? "" : textContent]);
  };
  const counts = (box) => !box.readOnly
    && getComputedStyle(box.closest(".field, p")).display !== "none";
  const boxes = document.querySelectorAll("[data-settings] input:not([type])");
  for (const box of [...boxes].filter(counts)) {
    for (const text of [...texts, box.value]) await fill(box, text);
  }
  return found;
}"""


@pytest.mark.long("every box")
@pytest.mark.parametrize("path", PAGES)
def test_no_box_blanks_or_freezes_its_page_and_each_says_what_is_wrong(path, open_page):
    page = open_page(path, expected=[REFUSED])
    page.wait_for_load_state("networkidle")
    answer = page.locator(PAGES[path])
    before = answer.inner_text()
    found = page.evaluate(FILL_EACH_BOX, WRONG)
    boxes = {box for box, _, _ in found}
    optional = OPTIONAL.get(path, set())
    for box, text, message in found:
        if text in NEVER_RIGHT or (text == "" and box not in optional):
            assert message, (box, text)
        if text == "" and box not in optional:
            assert message.endswith("must be given."), (box, message)
        if text == "1,5":
            assert "1,5" in message or "must be left out" in message, (box, message)
        if text == "-1" and message:
            assert "got -1." in message or "must be left out" in message, (box, message)
    last = {box: message for box, _, message in found}
    assert last == dict.fromkeys(boxes, "")
    assert len(boxes) >= 3
    expect(answer).to_have_text(before, use_inner_text=True)


@pytest.mark.long("every box")
def test_an_empty_clipping_bound_is_an_error_at_its_box_and_stays_one(open_page):
    page = open_page("/train/", expected=[REFUSED])
    bound = page.get_by_label("Clipping bound C", exact=True)
    bound.fill("")
    error = page.locator('[data-field="max_grad_norm"] .error')
    expect(error).to_have_text("Clipping bound must be given.")
    expect(planned(page)).to_have_text("–")
    page.reload()
    expect(error).to_have_text("Clipping bound must be given.")
    expect(bound).to_have_value("")
    bound.fill("0.2")
    expect(error).to_be_hidden()
    expect(planned(page)).to_have_text("3.00")
