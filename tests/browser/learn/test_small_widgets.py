"""Small widgets in a browser: a survey, faces, a lottery, a diary, a matrix."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.trainer import focus


@pytest.mark.long("more journeys")
def test_an_answer_of_one_s_own_goes_behind_two_coins_and_nowhere_else(open_page):
    page = open_page("/embed/randomised-response/")
    figure = page.locator("#randomised-response")
    expect(figure).to_have_attribute("data-state", "moves")
    before = page.evaluate("() => JSON.stringify({...localStorage})")
    sent = []
    page.on("request", lambda request: sent.append(request.url))
    title = figure.get_by_role("heading", level=1)
    toss = figure.get_by_role("button", name="Toss the coins")
    focus(toss)
    page.keyboard.press("Enter")
    expect(title).to_have_text("First answer for yourself: yes or no.")
    answer = figure.get_by_role("radio", name="yes")
    focus(answer)
    page.keyboard.press("Space")
    toss.click()
    expect(title).to_contain_text("The sheet says yes: 3 times as likely")
    figure.get_by_text("About", exact=True).click()
    expect(figure.get_by_text("Seed 7, toss 1.")).to_be_visible()
    expect(figure.get_by_text("An even belief becomes 75 % at most")).to_be_visible()
    figure.get_by_role("radio", name="no", exact=True).check()
    expect(title).to_have_text("Toss the coins, and see what the sheet says")
    figure.get_by_role("button", name="A crowd of sheets").click()
    figure.get_by_role("radio", name="10,000").check()
    found = figure.locator('[data-part="found"]')
    expect(found).to_have_text(re.compile(r"^10,000 sheets: .*, ± 1\.0 points$"))
    words = found.inner_text()
    figure.get_by_role("button", name="Ask another crowd").click()
    expect(found).not_to_have_text(words)
    figure.get_by_role("button", name="Your sheet").click()
    figure.get_by_role("button", name="Other coins").click()
    expect(figure.get_by_text(re.compile(r"Seed \d+, toss 0\."))).to_be_visible()
    assert [url for url in sent if not url.endswith(".woff2")] == []
    assert page.evaluate("() => JSON.stringify({...localStorage})") == before


def test_faces_are_guessed_and_follow_epsilon_and_the_belief_before(open_page):
    page = open_page("/learn/intro/")
    figure = page.locator("#odds-faces")
    expect(figure).to_be_hidden()
    expect(
        page.get_by_text("this is all that you know of the procedure")
    ).to_be_hidden()
    page.get_by_label("Right at ε = 1", exact=True).fill("60")
    page.get_by_label("Right at ε = 8", exact=True).fill("90")
    page.get_by_role("button", name="Show the picture").click()
    expect(page.get_by_text("You said 60 of 100; it is 73.2").first).to_be_visible()
    expect(figure.get_by_text("you: 60 of 100")).to_be_visible()
    title = figure.get_by_role("heading", level=3)
    expect(title).to_contain_text("At ε = 1, ε alone allows at most 74 right guesses")
    slider = figure.get_by_role("slider", name="Privacy loss bound")
    focus(slider)
    page.keyboard.press("End")
    expect(title).to_contain_text("At ε = 10, ε alone allows at most 100 right")
    page.keyboard.press("Home")
    figure.get_by_text("About", exact=True).click()
    fact = figure.locator('[data-part="fact"]')
    expect(fact).to_contain_text("the release says nothing about anybody")
    figure.get_by_role("radio", name="1 of 100", exact=True).check()
    slider.fill("4")
    expect(title).to_contain_text("at most 3 right guesses of 100; without")
    expect(figure.get_by_text("you: 60 of 100")).to_have_count(0)


@pytest.mark.long("more journeys")
def test_batches_are_drawn_in_four_ways_and_epsilon_follows(open_page):
    page = open_page("/embed/sampling-lottery/")
    figure = page.locator("#sampling-lottery")
    title = figure.get_by_role("heading", level=1)
    expect(title).to_have_text(
        re.compile(r"^Smallest proven ε after 4 steps: random allocation, [\d.]+$")
    )
    promise = figure.locator('[data-part="poisson-promise"]')
    figure.get_by_text("About", exact=True).click()
    first = promise.inner_text()
    play = figure.get_by_role("button", name="Play an epoch")
    focus(play)
    page.keyboard.press("Enter")
    expect(title).to_contain_text("after 8 steps")
    expect(promise).not_to_have_text(first)
    expect(figure.locator('[data-part="shuffled-promise"]')).to_have_text(
        re.compile(r"^ε is at least [\d.]+ .* at most [\d.]+")
    )
    used = figure.locator('[data-part="poisson-used"]')
    words = used.inner_text()
    figure.get_by_role("button", name="Other draws").click()
    expect(used).not_to_have_text(words)
    for _ in range(4):
        play.click()
    expect(title).to_contain_text("after 24 steps")
    figure.get_by_role("button", name="Start again").click()
    expect(promise).to_have_text(first)


@pytest.mark.long("more journeys")
def test_a_diary_is_kept_until_a_release_is_refused(open_page):
    page = open_page("/embed/composition-diary/")
    figure = page.locator("#composition-diary")
    title = figure.get_by_role("heading", level=1)
    expect(title).to_have_text("Nothing is released yet: all of ε = 3 is left")
    count = figure.get_by_role("button", name="Release a noisy count")
    run = figure.get_by_role("button", name="Release a run of DP-SGD")
    focus(run)
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")
    expect(title).to_contain_text(
        re.compile(r"^2 releases: ε\s=\s1\.\d\d together, 2\.")
    )
    count.click()
    figure.get_by_text("About", exact=True).click()
    rows = figure.locator('[data-part="rows"] tr')
    expect(rows).to_have_count(3)
    figure.get_by_role("radio", name="added up").check()
    expect(rows).to_have_count(0)
    for _ in range(7):
        count.click()
    expect(rows).to_have_count(6)
    refused = figure.get_by_text("Rejected: with a noisy count ε would be 3.50")
    expect(refused).to_be_visible()
    figure.get_by_role("radio", name="by a filter").check()
    figure.get_by_role("button", name="Release a noisy sum").click()
    expect(figure.get_by_text("The promise is ε = 3, the whole budget")).to_be_visible()
    figure.get_by_role("button", name="New diary").click()
    expect(rows).to_have_count(0)


@pytest.mark.long("more journeys")
def test_a_kernel_is_stepped_over_an_image_and_back_to_its_gradient(open_page):
    page = open_page("/learn/per-sample-gradients/", reduced_motion="reduce")
    page.get_by_role("button", name="Skip the guess").click()
    figure = page.locator("#unfolded")
    expect(figure).to_have_attribute("data-state", "moves")
    title = figure.get_by_role("heading", level=3)
    expect(title).to_contain_text("At position 1 the kernel covers the pixels")
    fact = figure.locator('[data-part="fact"]')
    expect(fact).to_have_text("1 × 1 + 0 × 2 + (−1) × 0 + 2 × 1 = 3")
    lit = figure.locator('[data-part="matrix"] .s-ink').first
    focus(figure.get_by_role("button", name="Next"))
    page.keyboard.press("Enter")
    expect(title).to_contain_text("computes entry 2 of the output: 7")
    column = lit.bounding_box()
    assert column["height"] > 3 * column["width"]
    focus(figure.get_by_role("radio", name="2", exact=True))
    page.keyboard.press("ArrowRight")
    expect(title).to_contain_text("computes entry 3 of the output: 0")
    focus(figure.get_by_role("radio", name="output"))
    page.keyboard.press("ArrowRight")
    expect(title).to_contain_text(
        "Entry 3 of the kernel was multiplied by the pixels of row 3"
    )
    expect(fact).to_have_text("2 × 0 + (−1) × 1 + 1 × 2 + 1 × 1 = 2")
    expect(figure.get_by_role("group", name="Entry of the kernel")).to_be_visible()
    row = lit.bounding_box()
    assert row["width"] > 3 * row["height"]


@pytest.mark.long("more journeys")
def test_no_word_of_the_unfolded_picture_is_cut_where_words_are_larger(open_page):
    page = open_page("/learn/per-sample-gradients/", size=(960, 800))
    page.get_by_role("button", name="Skip the guess").click()
    expect(page.locator("#unfolded")).to_have_attribute("data-state", "moves")
    found = page.evaluate("""() => {
      document.querySelector("#unfolded [data-still]").hidden = false;
      const drawing = document.querySelector("#unfolded .only-wide svg");
      const boxes = [...drawing.querySelectorAll("text")].map((one) => one.getBBox());
      const meet = (a, b) => a.x < b.x + b.width && b.x < a.x + a.width
        && a.y < b.y + b.height && b.y < a.y + a.height;
      return {
        width: drawing.viewBox.baseVal.width,
        right: Math.max(...boxes.map(({x, width}) => x + width)),
        over: boxes.filter((a, i) => boxes.some((b, j) => i < j && meet(a, b))).length,
      };
    }""")
    assert 0 < found["right"] <= found["width"]
    assert found["over"] == 0
