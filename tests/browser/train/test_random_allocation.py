"""A run with random allocation in the trainer."""

import re

import pytest
from playwright.sync_api import expect

from dpsgd_explorer.accounting import Plan
from dpsgd_explorer.web.questions.rounding import limit
from tests.browser.conftest import TINY
from tests.browser.trainer import (
    REFUSED,
    at,
    choose,
    planned,
    run_to_the_end,
    settings_in,
    status,
    unfold,
)

SETTINGS = {name: TINY[name] for name in TINY.keys() - {"target_epsilon"}} | {
    "noise_multiplier": 1.5,
    "expected_batch_size": 8200,
    "steps": 6,
    "evaluations": 2,
}
CHOICE = "Random allocation (each record once per epoch)"


@pytest.mark.long("more journeys")
def test_a_run_with_random_allocation_shows_the_epsilon_of_the_library(open_page):
    page = open_page(at(SETTINGS | {"audit": 2000}))
    unfold(page)
    choose(page.get_by_label("Sampling"), CHOICE)
    expect(page.get_by_label("Canaries")).to_have_value("0")
    expect(page.locator("[data-plan='batches']")).to_contain_text("t = 4 batches")
    expect(page.locator("[data-plan='sampling']")).to_have_text("random allocation")
    plan = Plan.create(
        sample_size=32561,
        expected_batch_size=8200,
        steps=6,
        noise_multiplier=1.5,
        delta=1e-5,
        sampling="random_allocation",
    )
    spent = limit(plan.epsilon())
    expect(planned(page)).to_have_text(spent)
    assert settings_in(page)["sampling"] == "random_allocation"
    run_to_the_end(page)
    expect(status(page, "epsilon")).to_have_text(spent)
    terms = page.locator("[data-terms] [data-sampling]")
    expect(terms).to_have_text("random allocation")
    counters = page.get_by_label("ε counted by").locator("option")
    expect(counters).to_have_text(["Exact"])


@pytest.mark.long("more journeys")
def test_canaries_are_refused_at_their_field(open_page):
    page = open_page(at(SETTINGS | {"audit": 100}), expected=[REFUSED])
    unfold(page)
    choose(page.get_by_label("Sampling"), CHOICE)
    error = page.locator("#audit-error")
    expect(error).to_have_text(re.compile("scores of canaries assume Poisson"))
