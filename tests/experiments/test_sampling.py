"""The setting ``sampling``: its default, the plan it leads to, and refusals."""

import pytest

from dpsgd_explorer.accounting import Plan
from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.experiments.attack_config import AttackConfig
from dpsgd_explorer.experiments.training_config import TrainingConfig

ALLOCATED = {"sampling": "random_allocation", "noise_multiplier": 2.0}


def test_the_default_is_poisson():
    config = TrainingConfig.parse({"noise_multiplier": 2.0})
    assert config.sampling == config.plan.sampling == "poisson"
    assert config.audit == 2000


@pytest.mark.parametrize("length", [{"steps": 31}, {"epochs": 2.5}], ids=str)
def test_the_plan_is_that_of_the_library(length):
    config = TrainingConfig.parse(ALLOCATED | length)
    assert config.plan == Plan.create(
        sample_size=config.sample_size,
        expected_batch_size=4096,
        noise_multiplier=2.0,
        delta=1e-5,
        sampling="random_allocation",
        **length,
    )
    assert config.planned_steps == config.plan.steps
    assert config.plan.slots == 15


def test_a_link_may_leave_out_the_audit():
    config = TrainingConfig.from_query({"sampling": "random_allocation"})
    assert config.audit == 0


@pytest.mark.parametrize(
    ("settings", "field", "words"),
    [
        ({"audit": 10}, "audit", "scores of canaries assume Poisson"),
        ({"filter_epsilon": 3.0}, "sampling", "must be 'poisson' with filter_epsilon"),
        ({"noise_schedule": "linear"}, "noise_schedule", "only between epochs"),
        ({"accountant": "rdp"}, "accountant", "Only the exact accountant bounds"),
        ({"sampling": "shuffled"}, "sampling", "must be one of poisson"),
    ],
    ids=str,
)
def test_settings_that_cannot_be_right_are_refused(settings, field, words):
    with pytest.raises(ConfigError, match=words) as refusal:
        TrainingConfig.parse(ALLOCATED | settings).check_reachable()
    assert field in refusal.value.fields


def test_the_plan_cannot_be_changed_while_the_run_trains():
    config = TrainingConfig.parse(ALLOCATED)
    with pytest.raises(ConfigError, match="plan fixed beforehand"):
        config.changed({"noise_multiplier": 3.0})
    assert config.changed({"learning_rate": 1.0}).learning_rate == 1.0
    assert "plan fixed beforehand" in config.why_not_continued


def test_shadow_models_need_poisson_sampling():
    with pytest.raises(ConfigError, match="random_allocation"):
        AttackConfig.of_run(TrainingConfig.parse(ALLOCATED))


def test_without_privacy_no_accountant_and_no_audit_matter():
    config = TrainingConfig.parse(ALLOCATED | {"private": False, "audit": 10})
    assert not config.plan.is_private


def test_engine_and_form_refuse_canaries_with_the_same_words():
    canaries = pytest.importorskip("dpsgd_explorer.dp.canaries.canaries")
    arguments = {"is_private": True, "sampling": "random_allocation"}
    with pytest.raises(ConfigError) as by_engine:
        canaries.checked_count(10, **arguments)
    with pytest.raises(ConfigError) as by_form:
        TrainingConfig.parse(ALLOCATED | {"audit": 10})
    [said] = by_engine.value.fields.values()
    # The form writes the label of the setting in place of its name.
    without = said.replace(", the number of canaries,", "")
    assert by_form.value.fields == {"audit": without}
