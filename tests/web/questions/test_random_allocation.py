"""Answers about training runs with random allocation."""

import pytest

from dpsgd_explorer.accounting import AllocationPhase, Phase, Plan
from dpsgd_explorer.accounting.queries import epsilon_interval
from dpsgd_explorer.experiments.kind_words import training_terms
from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.web.questions.looked_at import _ordered
from dpsgd_explorer.web.questions.plan_preview import plan_texts, planned
from dpsgd_explorer.web.questions.run_phases import phases_of
from dpsgd_explorer.web.questions.together import together
from dpsgd_explorer.web.run_views.statement import sampling_words

SETTINGS = {
    "dataset": "adult",
    "model": "logistic",
    "expected_batch_size": 8200,
    "sampling": "random_allocation",
    "steps": 6,
}
NOISE = {"noise_multiplier": 1.5}
SLOTS = 4
LOGGED = {"step": 0, "sample_rate": 1 / SLOTS, "noise_multiplier": 1.5, "delta": 1e-5}


def config(**settings):
    return TrainingConfig.parse(SETTINGS | (settings or NOISE))


def test_the_plan_has_the_epsilon_and_the_accountants_of_the_library():
    answer = planned(config(), points=7)
    library = Plan.create(
        sample_size=config().sample_size,
        expected_batch_size=8200,
        steps=6,
        delta=1e-5,
        sampling="random_allocation",
        **NOISE,
    )
    assert answer.epsilon == pytest.approx(library.epsilon(), abs=1e-4)
    assert answer.curve.steps[-1] == 6
    assert answer.sampling == "random_allocation"
    assert set(answer.accountants) == {"exact", "all"}
    assert plan_texts(answer.model_dump())["sampling"] == "random allocation"
    assert "each record in one random step per epoch" in training_terms(config(), 6)


def test_preliminary_noise_is_enough_for_the_target():
    aimed = config(target_epsilon=2.0)
    answer = planned(aimed, points=7, preliminary=True)
    at_most = TrainingConfig.parse(
        SETTINGS | {"noise_multiplier": answer.noise_multiplier}
    )
    assert 1.95 < at_most.plan.epsilon() <= 2.0 == answer.epsilon


def test_a_preliminary_last_step_is_never_too_late():
    plan = config().plan
    stopped = config(noise_multiplier=1.5, stop_at_epsilon=1.05 * plan.epsilon(4))
    quick = planned(stopped, points=None, preliminary=True).last_step
    assert 0 < quick <= plan.steps_within(stopped.stop_at_epsilon)


def test_a_log_says_that_steps_belong_to_epochs():
    phases, _ = phases_of([LOGGED | {"steps": 6, "slots": SLOTS}])
    assert phases == config().plan.phases
    poisson, _ = phases_of([LOGGED | {"steps": 6}])
    assert poisson == [Phase(1 / SLOTS, 1.5, 6)]


def test_incomplete_epochs_of_two_runs_are_not_one_epoch():
    alone = config().plan.phases
    merged = _ordered([*alone, *alone])
    assert sorted(phase.steps for phase in merged) == [2, 2, 8]
    assert {type(phase) for phase in merged} == {AllocationPhase}
    expected = epsilon_interval([*alone, *alone], 1e-5)
    spent = together([config(), config()])
    assert spent.sampling == "random_allocation"
    assert spent.epsilon == pytest.approx(expected.value, rel=1e-3)
    both = together([config(), config(**NOISE, sampling="poisson", audit=0)])
    assert both.sampling == "mixed"


def test_a_statement_names_the_sampling():
    words = sampling_words(config().plan.phases)
    assert "random allocation, 6 steps; in each epoch of 4 steps" in words
    poisson = sampling_words([Phase(0.25, 1.5, 6)])
    assert (
        poisson == "Poisson, every record joins each of 6 steps with probability 0.25"
    )
