"""Answers about training runs with correlated noise."""

import pytest

from dpsgd_explorer.accounting import Phase, Plan
from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.web.questions.looked_at import LookedAt
from dpsgd_explorer.web.questions.plan_preview import plan_texts, planned
from dpsgd_explorer.web.questions.quick_searches import quick_steps_within
from dpsgd_explorer.web.questions.run_phases import phases_of, releases_after
from dpsgd_explorer.web.questions.together import together

SETTINGS = {
    "dataset": "adult",
    "model": "logistic",
    "expected_batch_size": 1024,
    "noise_bands": 4,
    "steps": 42,
}
NOISE = {"noise_multiplier": 1.5}
RATE = 1024 / 32_561
ROUNDS = Phase(4 * RATE, 1.5, 11)
LOGGED = {
    "step": 0,
    "sample_rate": RATE,
    "noise_multiplier": 1.5,
    "delta": 1e-5,
    "steps": 42,
    "bands": 4,
}


def config(**settings):
    return TrainingConfig.parse(SETTINGS | (settings or NOISE))


def test_the_curve_is_never_below_the_epsilon_of_a_step():
    answer, plan = planned(config(), points=100), config().plan
    assert answer.epsilon == pytest.approx(plan.epsilon(), abs=1e-4)
    assert (answer.curve.steps[-1], answer.last_step) == (42, 42)
    steps = answer.curve.steps
    assert {0, 1, 5, 9, 37, 41, 42} <= set(steps)  # the first steps of rounds
    for shown, truth in zip(answer.curve.epsilon, plan.epsilons(steps), strict=True):
        assert truth * (1 - 1e-6) <= shown <= truth + 1e-3
    assert answer.sampling == "cyclic_poisson"
    texts = plan_texts(answer.model_dump())
    assert texts["sampling"] == "cyclic Poisson sampling"
    assert "4 groups" in texts["batches"]
    assert "probability 0.126" in texts["batches"]


def test_preliminary_noise_is_enough_for_the_target():
    aimed = config(target_epsilon=2.0)
    answer = planned(aimed, points=7, preliminary=True)
    at_most = config(noise_multiplier=answer.noise_multiplier)
    assert 1.98 < at_most.plan.epsilon() <= 2.0 == answer.epsilon


def test_a_preliminary_last_step_is_never_too_late():
    plan = config().plan
    budget = 1.05 * plan.epsilon(20)
    quick = quick_steps_within(plan, budget)
    assert quick == plan.steps_within(budget) == 20
    assert quick_steps_within(plan, 2 * plan.epsilon()) == 42


@pytest.mark.parametrize("changed_at", [None, 4, 6])
def test_a_log_says_that_steps_belong_to_rounds(changed_at):
    later = [] if changed_at is None else [LOGGED | {"step": changed_at}]
    phases, _ = phases_of([LOGGED, *later])
    assert {x.sample_rate for x in phases} == {ROUNDS.sample_rate}
    assert sum(x.steps for x in phases) == ROUNDS.steps
    assert config().plan.phases == [ROUNDS]
    assert [releases_after([LOGGED], step) for step in (0, 1, 4, 5)] == [0, 1, 1, 2]


def test_a_run_that_was_left_within_a_round_has_spent_the_round():
    settings = config().model_dump(mode="json")
    [spent] = LookedAt.of(settings, [LOGGED], 5).phases
    assert spent == Phase(4 * RATE, 1.5, 2)


def test_several_runs_together_name_their_samplings():
    same = together([config(), config()])
    assert same.sampling == "cyclic_poisson"
    alone = Plan.create(
        sample_size=32_561,
        expected_batch_size=1024,
        steps=42,
        delta=1e-5,
        noise_correlation=config().plan.noise_correlation,
        **NOISE,
    )
    assert same.epsilon > alone.epsilon()
    mixed = together(
        [config(), TrainingConfig.parse(SETTINGS | NOISE | {"noise_bands": 1})]
    )
    assert mixed.sampling == "mixed"
