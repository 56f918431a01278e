"""Each planted bug is seen by the check that the list names, and by that one."""

from itertools import pairwise

import pytest
import torch

from dpsgd_explorer.training.planted_bugs.catalogue import (
    CHECKS,
    ENGINE,
    HONEST,
    LOOPS,
    NOTHING,
    TORCH,
)
from dpsgd_explorer.training.planted_bugs.task import (
    BATCH_SIZE,
    CANARIES,
    COLUMNS,
    EPSILON,
    RATE,
    STEPS,
    TABLES,
    canary_task,
)
from dpsgd_explorer.training.planted_bugs.trial import AuditedLoop, refusal, seen_by

SEED = 1


def audited(name, seed=SEED):
    """Run a whole loop; return it and the last point."""
    loop = AuditedLoop(LOOPS[name], seed)
    while loop.advance():
        pass
    return loop, loop.point() if loop.step else None


def test_there_are_sixteen_bugs_and_an_honest_loop():
    assert len(LOOPS) == 17
    assert HONEST in LOOPS
    assert {bug.seen_by for bug in LOOPS.values()} == set(CHECKS)


@pytest.mark.parametrize("name", LOOPS)
def test_the_line_at_fault_is_in_the_loop_once_and_not_in_the_honest_one(name):
    bug = LOOPS[name]
    if name == HONEST:
        assert bug.at_fault == ""
        return
    assert bug.source.count(bug.at_fault) == 1
    assert bug.source != LOOPS[HONEST].source
    assert name not in bug.source
    assert bug.title not in bug.source


@pytest.fixture(scope="module")
def honest():
    return audited(HONEST)


def test_the_honest_loop_stays_below_its_promise(honest):
    loop, last = honest
    assert seen_by(refusal(LOOPS[HONEST], SEED), loop.error, last) == NOTHING
    assert last.step == STEPS
    assert EPSILON - 1e-6 < last.epsilon_promised <= EPSILON
    assert 1 < last.epsilon_lower < EPSILON


def test_a_loop_that_stops_or_is_refused_is_seen():
    loop, last = audited("never_summed")
    assert last is None
    assert "gradient of size" in loop.error
    assert seen_by("", loop.error, last) == TORCH
    assert seen_by(refusal(LOOPS["batch_norm"], SEED), "", last) == ENGINE


def test_clip_grad_norm_leaves_a_gradient_as_it_is():
    """What the page says of the loop whose clipping does nothing."""
    weights = torch.ones(3, requires_grad=True)
    gradient = torch.autograd.grad((1e6 * weights).sum(), [weights])
    assert torch.nn.utils.clip_grad_norm_(gradient, 1.0) == 0
    assert torch.equal(gradient[0], torch.full((3,), 1e6))


@pytest.mark.parametrize("name", ["copies_clipped", "one_number"])
def test_the_audit_sees_a_lost_clipping_and_a_shared_number_in_one_step(name):
    loop = AuditedLoop(LOOPS[name], SEED)
    loop.advance()
    point = loop.point()
    assert seen_by(refusal(LOOPS[name], SEED), loop.error, point) == LOOPS[name].seen_by
    assert point.epsilon_lower > 5 * point.epsilon_promised


def test_a_shared_number_falls_out_of_the_difference_of_two_weights():
    """What the page says of the loop with one number for a tensor."""
    loop = AuditedLoop(LOOPS["one_number"], SEED)
    before = loop._tables.weights()
    loop.advance()
    moved = (loop._tables.weights() - before)[:, COLUMNS:]
    apart = moved - moved.median(dim=1, keepdim=True).values
    assert (apart.abs() < 1e-5).float().mean() > 0.8  # canaries that were not drawn
    assert moved.abs().min() > 1e-3


def test_a_loop_repeats_with_its_seed_and_leaves_the_generator_alone():
    before = torch.get_rng_state()
    first, second = (AuditedLoop(LOOPS[HONEST], 7) for _ in range(2))
    for _ in range(3):
        first.advance()
        torch.rand(5)  # another user of the same generator, between two steps
        second.advance()
    torch.set_rng_state(before)
    assert (first.scores == second.scores).all()
    other = AuditedLoop(LOOPS[HONEST], 8)
    other.advance()
    assert (other.scores != first.scores).any()


def test_a_canary_meets_no_other_record_and_is_longer_than_the_bound():
    task, joined = canary_task(SEED, 1.0)
    assert len(task.x) - joined.sum() == len(task.test_x)
    products = task.x @ task.x.t()
    products.fill_diagonal_(0)
    crafted = slice(len(task.test_x), None)
    assert not products[crafted].any()
    assert (task.x[crafted].norm(dim=1) == TABLES**0.5).all()
    assert abs(joined.sum() - CANARIES / 2) < 6 * (CANARIES / 4) ** 0.5
    assert abs(RATE * len(task.x) - BATCH_SIZE) < 0.1 * BATCH_SIZE


@pytest.mark.long("audit")
def test_the_noise_of_a_reused_seed_falls_out_of_a_difference_of_two_steps():
    """What the page says of the bug that the audit does not see."""
    loop = AuditedLoop(LOOPS["seed_reused"], SEED)
    weights = [loop._tables.weights()]
    for _ in range(3):
        loop.advance()
        weights.append(loop._tables.weights())
    first, second, third = (b - a for a, b in pairwise(weights))
    own = slice(5, None)
    apart = (third - second)[:, own].abs()
    # Canaries that neither step or both steps drew: equal noise, so equal weights.
    assert (apart < 1e-5).float().mean() > 0.8
    assert (second[:, own].abs() > 1e-5).float().mean() > 0.99
    assert not torch.equal(first, second)


def test_what_shows_nothing_says_why():
    for bug in LOOPS.values():
        if bug.seen_by == NOTHING:
            assert len(bug.why.split(". ")) >= 2
