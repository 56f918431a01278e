"""The audit of a run in numbers and in words."""

import pytest

from dpsgd_explorer.accounting import Phase, noise_multiplier
from dpsgd_explorer.accounting.auditing.audit import audit
from dpsgd_explorer.accounting.core.neighboring_relation import REPLACE_ONE
from tests.accounting.auditing.canaries import gaussian, simulated, simulated_run

DELTA = 1e-5
RUN = Phase(
    0.1,
    noise_multiplier(target_epsilon=4.0, sample_rate=0.1, steps=60, delta=DELTA),
    60,
)


def test_it_says_what_was_proven_of_which_steps():
    found = audit(simulated(RUN, 4000, 1), [RUN], DELTA)
    text = str(found)
    assert text.startswith("ε of the 60 steps done is 3.")
    assert "95 % confidence" in text
    assert "4000 canaries" in text
    assert "Promised: 4.00." in text
    assert float(text.split(" is ")[1].split(" or more")[0]) <= found.epsilon_lower


def test_too_few_canaries_prove_nothing_and_the_audit_says_so():
    found = audit(gaussian(9.0, 3, 3, 1), [RUN], DELTA)
    assert found.epsilon_lower == 0.0
    assert found.too_few_canaries
    assert "6 canaries are too few for any bound above 0" in str(found)


def test_scores_without_news_are_not_taken_for_too_few():
    found = audit(gaussian(0.0, 500, 500, 1), [RUN], DELTA)
    assert found.epsilon_lower == 0.0
    assert not found.too_few_canaries
    assert "1000 canaries prove too little" in str(found)


@pytest.mark.parametrize("phases", [[], [Phase(0.1, 1.0, 0)]], ids=len)
def test_before_the_first_step_there_is_nothing_to_prove(phases):
    found = audit(gaussian(1.0, 50, 50, 1), phases, DELTA)
    assert (found.steps, found.epsilon_lower, found.epsilon_promised) == (0, 0, 0)
    assert "no step was done" in str(found)


STEPS = [Phase(0.1, 1.5 * (1 + i / 200), 1) for i in range(200)]


@pytest.mark.parametrize(
    "noise", [1.0, pytest.param(0.5, marks=pytest.mark.long("long statistics"))]
)
def test_a_run_with_another_noise_at_each_step_is_audited(noise):
    """There are more settings than the accountant takes one by one."""
    found = audit(simulated_run(STEPS, 2000, 5, noise=noise), STEPS, DELTA)
    assert found.exceeds_promise is (noise < 1)
    assert found.epsilon_lower > 0.6 * found.epsilon_promised


def test_the_promise_is_that_of_the_relation():
    there = audit(simulated(RUN, 2000, 1), [RUN], DELTA)
    scores = simulated(RUN, 2000, 1, relation=REPLACE_ONE)
    replaced = audit(scores, [RUN], DELTA, relation=REPLACE_ONE)
    assert replaced.neighboring_relation is REPLACE_ONE
    assert replaced.epsilon_promised > 1.5 * there.epsilon_promised
    assert there.epsilon_promised < replaced.epsilon_lower < replaced.epsilon_promised
