"""Settings that may change while a run trains."""

import pytest

from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.experiments import kinds
from dpsgd_explorer.experiments.events import changes_of

ADULT = {"dataset": "adult", "model": "logistic", "steps": 3}
BUDGET = {"filter_epsilon": 4.0}


@pytest.mark.parametrize(
    ("config", "values", "field"),
    [
        ({}, {"noise_multiplier": 2.0}, "noise_multiplier"),
        ({}, {"learning_rate": 0.0}, "learning_rate"),
        ({}, {"learning_rate": "4"}, "learning_rate"),
        ({}, {"max_grad_norm": -1.0}, "max_grad_norm"),
        ({"private": False}, {"max_grad_norm": 1.0}, "max_grad_norm"),
        ({"clipping_schedule": "adaptive"}, {"max_grad_norm": 1.0}, "max_grad_norm"),
        ({"kind": "regression"}, {"learning_rate": 1.0}, "learning_rate"),
        ({}, {"steps": 2}, "steps"),
        ({}, {"expected_batch_size": 64}, "expected_batch_size"),
        (BUDGET, {"noise_multiplier": 0.0}, "filter_epsilon"),
        (BUDGET, {"expected_batch_size": 0}, "expected_batch_size"),
        (BUDGET, {"steps": 0}, "steps"),
        (BUDGET, {"delta": 1e-6}, "delta"),
        (BUDGET, {"filter_epsilon": 9.0}, "filter_epsilon"),
        ({"private": False}, {"noise_multiplier": 2.0}, "noise_multiplier"),
    ],
)
def test_a_change_that_cannot_be_made_is_refused_by_name(config, values, field):
    base = config if "kind" in config else ADULT | config
    with pytest.raises(ConfigError) as refused:
        kinds.parse(base).changed(values)
    assert refused.value.field == field


def test_a_change_leaves_everything_else():
    before = kinds.parse(ADULT)
    after = before.changed({"learning_rate": 2, "max_grad_norm": 0.3})
    assert (after.learning_rate, after.max_grad_norm) == (2.0, 0.3)
    kept = {"learning_rate", "max_grad_norm"}
    assert after.model_dump(exclude=kept) == before.model_dump(exclude=kept)


def test_the_log_says_what_was_changed_and_when():
    phases = [{"step": 0}, {"step": 4, "changes": {"learning_rate": 1}}, {"step": 9}]
    assert changes_of(phases) == [(4, {"learning_rate": 1})]


def test_a_change_that_enters_epsilon_says_what_to_do_without_a_budget():
    with pytest.raises(ConfigError, match="Start another run with filter_epsilon"):
        kinds.parse(ADULT).changed({"steps": 9})


def test_what_is_not_changed_stays_as_it_was_planned():
    before = kinds.parse(ADULT | BUDGET | {"steps": None, "epochs": 2.0})
    after = before.changed({"expected_batch_size": 512})
    assert (after.steps, after.epochs) == (before.plan.steps, None)
    assert after.plan.noise_multiplier == before.plan.noise_multiplier
    assert after.plan.sample_rate == 512 / before.sample_size
    assert after.filter_epsilon == 4.0


def test_steps_that_are_done_are_not_taken_back():
    config = kinds.parse(ADULT | BUDGET)
    assert config.after(7, {"steps": 5}).steps == 7
    assert config.after(7, {"steps": 9}).steps == 9


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"noise_schedule": "linear"}, "noise_schedule"),
        ({"clipping_schedule": "adaptive"}, "clipping_schedule"),
        ({"accountant": "rdp"}, "accountant"),
        ({"stop_at_epsilon": 1.0}, "stop_at_epsilon"),
        ({"noise_multiplier": 0.0}, "filter_epsilon"),
        ({"filter_epsilon": 0.001}, "filter_epsilon"),
        ({"filter_epsilon": 0.0}, "filter_epsilon"),
    ],
)
def test_a_budget_for_changes_takes_what_is_counted_step_by_step(settings, field):
    with pytest.raises(ConfigError) as refused:
        kinds.parse(ADULT | BUDGET | settings)
    assert refused.value.field == field
    assert (
        kinds.parse(
            ADULT
            | BUDGET
            | {
                "private": False,
                **{
                    name: value
                    for name, value in settings.items()
                    if name != "filter_epsilon"
                },
            }
        ).filtered_run
        is None
    )


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({}, "a plan fixed beforehand"),
        ({"noise_multiplier": 0.0, "noise_schedule": "linear"}, "follows a schedule"),
        (
            {"noise_multiplier": 0.0, "clipping_schedule": "linear"},
            "follows a schedule",
        ),
    ],
    ids=str,
)
def test_a_run_that_cannot_be_continued_says_why(settings, why):
    config = kinds.parse(ADULT | settings)
    assert why in config.why_not_continued
    with pytest.raises(ConfigError, match=why) as refused:
        config.after(3, {"further_steps": 2})
    assert refused.value.field == "further_steps"


@pytest.mark.parametrize("settings", [BUDGET, {"private": False}], ids=str)
def test_a_run_within_a_budget_or_without_privacy_can_be_continued(settings):
    config = kinds.parse(ADULT | settings)
    assert config.why_not_continued == ""
    after = config.after(8, {"further_steps": 2, "learning_rate": 0.5})
    assert (after.plan.steps, after.learning_rate) == (10, 0.5)
