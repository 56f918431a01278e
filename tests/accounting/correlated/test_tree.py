"""Tree aggregation, against dense matrices and published values."""

import itertools

import numpy as np
import pytest
from scipy.linalg import toeplitz

from dpsgd_explorer.accounting import (
    Plan,
    ToeplitzStrategy,
    TreeStrategy,
    momentum_workload,
    square_root_strategy,
)
from dpsgd_explorer.errors import AccountingError, ConfigError

SIZES = (1, 2, 3, 6, 7, 8, 11, 19, 32)


def nodes_of(steps):
    """Returns the first step and the number of steps of each complete node."""
    return [
        (start, 2**level)
        for level in range(steps.bit_length())
        for start in range(0, steps - 2**level + 1, 2**level)
    ]


def dense(steps, nodes):
    rows = np.zeros((len(nodes), steps))
    for row, (start, size) in zip(rows, nodes, strict=True):
        row[start : start + size] = 1
    return rows


def parts(count):
    """Returns the nodes whose steps are the first ones, from the largest node on."""
    start, nodes = 0, []
    for level in reversed(range(count.bit_length())):
        if count & 2**level:
            nodes.append((start, 2**level))
            start += 2**level
    return nodes


def decoder(steps, estimator):
    """Returns the matrix (T, nodes) from noisy nodes to sums of the first steps."""
    nodes = nodes_of(steps)
    matrix = dense(steps, nodes)
    if estimator == "full":
        return np.tri(steps) @ np.linalg.pinv(matrix)
    of_sums = np.zeros((steps, len(nodes)))
    for row, count in zip(of_sums, range(1, steps + 1), strict=True):
        for start, size in parts(count):
            if estimator == "plain":
                row[nodes.index((start, size))] += 1
                continue
            below = [
                at
                for at, (first, width) in enumerate(nodes)
                if start <= first and first + width <= start + size
            ]
            of_node = matrix[below, start : start + size]
            row[below] += np.linalg.pinv(of_node).sum(axis=0)
    assert of_sums @ matrix == pytest.approx(np.tri(steps))  # unbiased
    return of_sums


@pytest.mark.parametrize("estimator", ["plain", "online", "full"])
@pytest.mark.parametrize("steps", SIZES)
@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_errors_are_those_of_the_dense_matrices(steps, estimator, momentum):
    workload = momentum_workload(steps, momentum)
    wanted = toeplitz(workload, np.zeros(steps)) @ np.linalg.inv(np.tri(steps))
    norms = np.linalg.norm(wanted @ decoder(steps, estimator), axis=1)
    tree = TreeStrategy(steps, estimator)
    assert tree.prefix_errors(workload, sensitivity=1) == pytest.approx(norms)
    size = np.linalg.norm(dense(steps, nodes_of(steps)), axis=0).max()
    assert tree.column_norm == pytest.approx(size)
    assert tree.rmse(workload) == pytest.approx(size * np.sqrt(np.mean(norms**2)))


@pytest.mark.parametrize("steps", SIZES)
def test_fixed_slots_have_the_sensitivity_of_the_worst_slot_and_signs(steps):
    matrix = dense(steps, nodes_of(steps))
    for slots in (1, 2, 3, 4, 5, 7, steps, steps + 1):
        worst = 0.0
        for slot in range(min(slots, steps)):
            columns = matrix[:, slot::slots]
            uses = columns.shape[1]
            signs = itertools.product((-1, 1), repeat=uses if uses < 8 else 0)
            for one in [np.ones(uses), *(np.array(s) for s in signs if s)]:
                worst = max(worst, np.linalg.norm(columns @ one))
        found = TreeStrategy(steps).fixed_slots_sensitivity(slots)
        assert found == pytest.approx(worst)


def test_sensitivities_are_those_of_tensorflow_privacy():
    """Values of its tests, in which uses have at least the distance of the slots."""
    published = {(9, 4): 11, (7, 3): 9, (8, 1): 120, (11, 1): 127, (8, 8): 4}
    for (steps, slots), square in published.items():
        found = TreeStrategy(steps).fixed_slots_sensitivity(slots)
        assert found**2 == pytest.approx(square)
    assert TreeStrategy(24).fixed_slots_sensitivity(3) ** 2 <= 88


def test_a_sum_has_the_closed_forms_of_the_estimators():
    steps = 1000
    ones = [count.bit_count() for count in range(1, steps + 1)]
    plain = TreeStrategy(steps, "plain").prefix_errors(sensitivity=1)
    assert plain**2 == pytest.approx(ones)
    from_below = [
        sum(size / (2 * size - 1) for _, size in parts(count))
        for count in range(1, steps + 1)
    ]
    online = TreeStrategy(steps, "online").prefix_errors(sensitivity=1)
    assert online**2 == pytest.approx(from_below)
    assert np.all(TreeStrategy(steps).prefix_errors(sensitivity=1) <= online + 1e-12)


@pytest.mark.parametrize("steps", [7, 8, 19])
def test_a_lower_triangular_matrix_has_the_errors_of_the_full_estimator(steps):
    matrix = dense(steps, nodes_of(steps))
    turned = (matrix.T @ matrix)[::-1, ::-1]
    lower = np.linalg.cholesky(turned).T[::-1, ::-1]
    assert lower == pytest.approx(np.tril(lower))
    assert lower.T @ lower == pytest.approx(matrix.T @ matrix)
    errors = np.linalg.norm(np.tri(steps) @ np.linalg.inv(lower), axis=1)
    found = TreeStrategy(steps).prefix_errors(sensitivity=1)
    assert found == pytest.approx(errors)


def test_the_matrix_square_root_is_better_than_the_tree():
    """For one use of a record, it is near the best of all factorizations."""
    best = square_root_strategy(10_000, 10_000).rmse()
    errors = [TreeStrategy(10_000, x).rmse() for x in ("full", "online", "plain")]
    assert best < errors[0] < errors[1] < errors[2]


def test_a_plan_rejects_the_tree():
    with pytest.raises(ConfigError, match="noise_correlation must be a Toeplitz"):
        Plan.create(
            sample_size=100,
            expected_batch_size=10,
            steps=8,
            delta=1e-5,
            noise_multiplier=1.0,
            noise_correlation=TreeStrategy(8),
        )


@pytest.mark.parametrize(
    "call",
    [
        lambda: TreeStrategy(0),
        lambda: TreeStrategy(8, "best"),
        lambda: TreeStrategy(8).fixed_slots_sensitivity(0),
        lambda: TreeStrategy(8).rmse(np.ones(3)),
    ],
)
def test_arguments_outside_their_domain_are_rejected(call):
    with pytest.raises(AccountingError, match="must"):
        call()


@pytest.mark.parametrize("strategy", [TreeStrategy(3), ToeplitzStrategy((1.0,), 3)])
@pytest.mark.parametrize(
    "workload", [[1.0, 2.0], [1.0, np.nan, 1.0], [1.0, np.inf, 1.0], np.ones((3, 2))]
)
def test_a_workload_is_one_finite_weight_for_each_step(strategy, workload):
    with pytest.raises(AccountingError, match="workload"):
        strategy.prefix_errors(workload)
    assert strategy.rmse([1, 1, 1]) == strategy.rmse()
