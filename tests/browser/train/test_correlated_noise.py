"""A run with correlated noise in the trainer."""

import pytest
from playwright.sync_api import expect

from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.web.questions.rounding import limit
from tests.browser.conftest import TINY
from tests.browser.trainer import (
    at,
    planned,
    run_to_the_end,
    settings_in,
    status,
    unfold,
)

SETTINGS = {name: TINY[name] for name in TINY.keys() - {"target_epsilon"}} | {
    "noise_multiplier": 1.5,
    "evaluations": 2,
}


@pytest.mark.long("more journeys")
def test_a_run_with_correlated_noise_shows_the_epsilon_of_the_library(open_page):
    page = open_page(at(SETTINGS | {"audit": 2000}))
    unfold(page)
    page.locator("input#noise_bands").fill("4")
    expect(page.get_by_label("Canaries")).to_have_value("0")
    expect(page.locator("[data-plan='batches']")).to_contain_text("one of 4 groups")
    words = "cyclic Poisson sampling"
    expect(page.locator("[data-plan='sampling']")).to_have_text(words)
    plan = TrainingConfig.parse(SETTINGS | {"noise_bands": 4}).plan
    spent = limit(plan.epsilon())
    expect(planned(page)).to_have_text(spent)
    assert settings_in(page)["noise_bands"] == "4"
    run_to_the_end(page)
    expect(status(page, "epsilon")).to_have_text(spent)
    expect(page.locator("[data-terms] [data-sampling]")).to_have_text(words)


@pytest.mark.long("more journeys")
def test_a_schedule_is_refused_at_its_field(open_page):
    settings = SETTINGS | {"noise_bands": 4, "noise_schedule": "linear"}
    page = open_page(at(settings))
    error = page.locator("#noise_schedule-error")
    expect(error).to_contain_text("with correlated noise")
