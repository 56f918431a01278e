"""The membership game in a browser: ten records against the attacker, by keyboard."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.trainer import focus


@pytest.mark.long("more journeys")
def test_ten_records_are_guessed_by_keyboard_and_scored_below_the_limit(open_page):
    page = open_page("/embed/membership-game/?model=3")
    figure = page.locator("#membership-game")
    expect(figure).to_have_attribute("data-state", "moves")
    expect(figure.get_by_role("radio", name="ε = 2")).to_be_checked()
    figure.get_by_text("About", exact=True).click()
    score = figure.get_by_role("heading", level=1)
    expect(score).to_contain_text("Round 1 of 10")
    rows = figure.locator('[data-part="rounds"] tbody tr')
    first = figure.get_by_role("button", name="It was in")
    focus(first)
    for round_ in range(1, 11):
        page.keyboard.press("Enter")
        expect(rows).to_have_count(round_)
        if round_ < 10:
            expect(first).to_be_focused()
    expect(first).to_be_disabled()
    expect(score).to_have_text(re.compile(r"^After all 10 rounds: you \d+, the att"))
    limit = figure.locator('[data-part="limit"]')
    expect(limit).to_contain_text(re.compile(r"this run: 6\d\.\d\s%; ε alone: 8\d\."))
    expect(limit).to_contain_text("A coin gets")
    expect(score).to_contain_text("you 5,")  # one button all the way is a coin
    right = sum(
        row.locator("td").nth(3).inner_text() == row.locator("td").nth(5).inner_text()
        for row in rows.all()
    )
    expect(score).to_contain_text(f"you {right},")
    figure.get_by_role("radio", name="without privacy").check()  # another game
    expect(score).to_contain_text("Round 1 of 10")
    expect(limit).to_contain_text("Without privacy nothing stops an attack. The mod")
    figure.get_by_role("radio", name="ε = 2").check()
    expect(rows).to_have_count(10)
    again = figure.get_by_role("button", name="New game")
    focus(again)
    page.keyboard.press("Enter")
    expect(score).to_contain_text("Round 1 of 10")
    expect(first).to_be_focused()
