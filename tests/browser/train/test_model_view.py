"""The model of a run at each step: weights, confusions, errors, pictures."""

import pytest
from playwright.sync_api import expect

from tests.browser.trainer import at, focus, run_to_the_end, unfold

PIXELS = {
    "model": "logistic",
    "expected_batch_size": 1024,
    "steps": 40,
    "learning_rate": 4.0,
    "max_grad_norm": 0.5,
    "evaluations": 4,
}
PIXELS_DRAWN = """canvas => canvas.getContext("2d").getImageData(0, 0, 28, 28).data
    .filter((value, i) => i % 4 === 3 && value > 0).length"""


def part(page, name):
    """Return a part of the view."""
    return page.locator(f'[data-model-part="{name}"]')


def heading(page):
    return page.get_by_role("heading", name="The model after step")


@pytest.mark.long("more journeys")
def test_a_replay_shows_the_model_of_each_step(open_page, finished_run):
    page = open_page(f"/runs/{finished_run['id']}/")
    expect(heading(page)).to_have_text("The model after step 30")
    reached = 100 * finished_run["summary"]["test_accuracy"]
    expect(page.locator("[data-model-place]")).to_contain_text(f"{reached:.1f} %")
    counts = part(page, "confusion").locator("tbody td").all_inner_texts()
    assert sum(int(count.replace(",", "")) for count in counts) == 16_281
    expect(part(page, "errors")).to_contain_text("sex: Female")
    expect(part(page, "sides")).to_be_hidden()
    focus(page.get_by_label("Step of the replay"))
    page.keyboard.press("Home")
    expect(heading(page)).to_be_hidden()
    page.keyboard.press("ArrowRight")
    expect(heading(page)).to_have_text("The model after step 1")
    button = part(page, "features").get_by_role("button", name="Show as table")
    focus(button)
    page.keyboard.press("Enter")
    rows = part(page, "features").locator("[data-table] tbody tr")
    expect(rows).to_have_count(134)
    before = rows.first.inner_text()
    focus(page.get_by_label("Step of the replay"))
    page.keyboard.press("End")
    expect(rows.first).not_to_have_text(before)


@pytest.mark.long("more journeys")
def test_pixels_are_drawn_beside_a_recorded_twin_and_what_privacy_lost(open_page, axe):
    page = open_page(at(PIXELS))
    expect(part(page, "weights")).to_be_hidden()
    run_to_the_end(page)
    expect(heading(page)).to_have_text("The model after step 40")
    images = part(page, "weights").locator("canvas")
    expect(images).to_have_count(20)
    drawn = [image.evaluate(PIXELS_DRAWN) for image in images.all()]
    assert all(count > 700 for count in drawn[:10])  # noise reaches every pixel
    assert all(0 < count < 760 for count in drawn[10:])  # where there is never ink
    said = part(page, "sides").get_by_role("heading")
    expect(said).to_contain_text("Only the twin is right on")  # it had other batches
    expect(part(page, "sides")).to_contain_text("with other settings")
    assert page.evaluate(axe + "; axe.run('[data-model]')")["violations"] == []
    for box in part(page, "sides").locator("li").all():
        label, read = box.inner_text().split("read ")
        assert label.strip() != read.strip()
    draw_by_keyboard_and_by_hand(page)


def draw_by_keyboard_and_by_hand(page):
    pad, answer = page.get_by_role("application"), part(page, "draw").locator("h3")
    scores = part(page, "draw").locator("tbody .n")
    expect(answer).to_have_text("Draw one yourself, and see what the model reads")
    focus(pad)
    page.keyboard.press("Space")
    for _ in range(9):
        page.keyboard.press("ArrowDown")
    expect(part(page, "draw").get_by_role("status")).to_contain_text("row 23")
    expect(answer).to_contain_text("read")
    expect(scores).to_have_count(20)
    upright = scores.all_inner_texts()
    page.get_by_role("button", name="Clear").click()
    expect(answer).to_have_text("Draw one yourself, and see what the model reads")
    expect(scores.first).to_have_text("–")
    box = pad.bounding_box()
    page.mouse.move(box["x"] + 40, box["y"] + 120)
    page.mouse.down()
    page.mouse.move(box["x"] + 200, box["y"] + 120)
    page.mouse.up()
    expect(answer).to_contain_text("read")
    assert scores.all_inner_texts() != upright
    page.get_by_role("button", name="Next test picture").click()
    expect(part(page, "draw").get_by_role("status")).to_contain_text("class 0")


@pytest.mark.long("more journeys")
def test_a_phone_shows_the_model_as_a_view_of_its_own(open_page, finished_run):
    page = open_page(f"/runs/{finished_run['id']}/", size=(390, 844))
    expect(page.locator(".accuracy-box")).to_be_visible()
    expect(heading(page)).to_be_hidden()
    page.get_by_role("radio", name="Model", exact=True).check(force=True)
    expect(heading(page)).to_be_visible()
    expect(page.locator(".accuracy-box")).to_be_hidden()
    wide = "document.documentElement.scrollWidth - innerWidth"
    assert page.evaluate(wide) == 0


@pytest.mark.long("more journeys")
def test_a_models_card_shows_how_each_layer_is_clipped(open_page, axe):
    page = open_page(at({"model": "cnn", "expected_batch_size": 64, "steps": 20}))
    unfold(page)
    layers = page.locator("[data-model-card] li")
    expect(layers).to_have_count(5)
    expect(layers.nth(1)).to_contain_text("Conv2d → 16 × 14 × 14")
    expect(layers.nth(1)).to_contain_text("instantiated")
    expect(layers.nth(4)).to_contain_text("ghost")
    found = page.evaluate(axe + "; axe.run('[data-model-card]')")
    assert (found["violations"], bool(found["passes"])) == ([], True)
    page.locator("#model").select_option("scattering_linear")
    expect(layers).to_have_count(3)
    expect(layers.nth(1)).to_contain_text("fixed, nothing is learned")
    expect(page.locator("[data-model-card]")).to_contain_text("12,260 parameters")
