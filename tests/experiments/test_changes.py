"""Settings that may change while a run trains."""

import pytest

from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.experiments import kinds
from dpsgd_explorer.experiments.events import changes_of

ADULT = {"dataset": "adult", "model": "logistic", "steps": 3}


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
