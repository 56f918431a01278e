"""The setting ``noise_bands``: its default, the plan it leads to, and refusals."""

import pytest

from dpsgd_explorer.accounting import Plan, banded_strategy, momentum_workload
from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.experiments.attack_config import AttackConfig
from dpsgd_explorer.experiments.kind_words import training_terms
from dpsgd_explorer.experiments.training_config import TrainingConfig

CORRELATED = {"noise_bands": 4, "noise_multiplier": 2.0, "steps": 30}


def test_settings_without_bands_have_independent_noise():
    config = TrainingConfig.parse({"noise_multiplier": 2.0})
    assert config.noise_bands == config.plan.bands == 1
    assert config.plan.noise_correlation is None
    assert (config.audit, config.takes_canaries) == (2000, True)


@pytest.mark.parametrize(
    ("settings", "momentum"),
    [({}, 0.9), ({"momentum": 0.0}, 0.0), ({"optimizer": "adam"}, 0.0)],
    ids=str,
)
def test_the_strategy_is_optimized_for_the_sums_of_the_run(settings, momentum):
    config = TrainingConfig.parse(CORRELATED | settings)
    best = banded_strategy(30, 4, momentum_workload(30, momentum))
    assert config.plan == Plan.create(
        sample_size=config.sample_size,
        expected_batch_size=4096,
        steps=30,
        noise_multiplier=2.0,
        delta=1e-5,
        noise_correlation=best,
    )


def test_epochs_and_a_target_lead_to_the_plan_of_the_library():
    config = TrainingConfig.parse(
        {"noise_bands": 4, "target_epsilon": 2.0, "epochs": 2}
    )
    assert config.plan.steps == config.planned_steps == 30
    assert 1.999 < config.plan.epsilon() <= 2.0
    independent = TrainingConfig.parse({"target_epsilon": 2.0, "epochs": 2}).plan
    assert config.plan.noise_multiplier > independent.noise_multiplier


def test_a_link_may_leave_out_the_audit():
    config = TrainingConfig.from_query({"noise_bands": "4"})
    assert (config.audit, config.noise_bands) == (0, 4)
    assert TrainingConfig.from_query({}).noise_bands == 1


@pytest.mark.parametrize(
    ("settings", "field", "words"),
    [
        ({"audit": 10}, "audit", "scores of canaries assume independent noise"),
        ({"filter_epsilon": 3.0}, "noise_bands", "must be 1 with filter_epsilon"),
        ({"noise_schedule": "linear"}, "noise_schedule", "the same noise"),
        ({"clipping_schedule": "adaptive"}, "clipping_schedule", "same clipping bound"),
        ({"clipping_schedule": "linear"}, "clipping_schedule", "same clipping bound"),
        ({"sampling": "random_allocation"}, "noise_bands", "1 with random allocation"),
        ({"expected_batch_size": 15_001}, "noise_bands", "at most 3, got 4"),
        ({"steps": 3}, "noise_bands", "at most 3, got 4"),
        ({"noise_bands": 17}, "noise_bands", "16"),
        ({"noise_bands": 0}, "noise_bands", "1"),
        (
            {"noise_bands": 14, "model": "mlp", "widths": "1024, 512"},
            "noise_bands",
            "at most 64 MiB, here 66 MiB for 14 bands",
        ),
    ],
    ids=str,
)
def test_settings_that_cannot_be_right_are_refused(settings, field, words):
    with pytest.raises(ConfigError, match=words) as refusal:
        TrainingConfig.parse(CORRELATED | settings)
    assert field in refusal.value.fields


def test_without_noise_nothing_is_correlated_and_nothing_is_refused():
    for settings in ({"private": False}, {"noise_multiplier": 0.0}):
        config = TrainingConfig.parse(
            CORRELATED | settings | {"clipping_schedule": "linear"}
        )
        assert config.plan.noise_correlation is None


def test_only_the_learning_rate_can_change_while_the_run_trains():
    config = TrainingConfig.parse(CORRELATED)
    assert config.changed({"learning_rate": 1.0}).learning_rate == 1.0
    with pytest.raises(ConfigError, match="must stay the same"):
        config.changed({"max_grad_norm": 1.0})
    with pytest.raises(ConfigError, match="plan fixed beforehand"):
        config.changed({"noise_multiplier": 3.0})


def test_shadow_models_need_independent_noise():
    with pytest.raises(ConfigError, match="noise_bands"):
        AttackConfig.of_run(TrainingConfig.parse(CORRELATED))


def test_the_terms_of_epsilon_name_the_sampling():
    config = TrainingConfig.parse(CORRELATED)
    assert "cyclic Poisson sampling at mean rate" in training_terms(config, 30)
