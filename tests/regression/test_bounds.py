"""Sensitivities beside what records at the bounds really change."""

import math
import re

import numpy as np
import pytest

from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.regression.bounds import Bounds

ADD, REPLACE = (
    Bounds(1.5, 4.0, relation) for relation in ("add_or_remove_one", "replace_one")
)


def records(count=4000, dim=3):
    """Return rows and labels on the border of the bounds, opposite ones included."""
    rng = np.random.default_rng(3)
    x = rng.standard_normal((count, dim))
    x *= ADD.x_bound / np.linalg.norm(x, axis=1, keepdims=True)
    return x, ADD.y_bound * rng.choice([-1.0, 1.0], count)


def gradient(x, y, theta):
    """Differentiate f = 1/2 sum (y - x'theta)^2 numerically, centrally."""

    def f(at):
        return 0.5 * ((y - x @ at) ** 2).sum()

    steps = 1e-5 * np.eye(len(theta))
    return np.array([(f(theta + h) - f(theta - h)) / 2e-5 for h in steps])


def test_the_gradient_used_is_that_of_half_the_sum(statistics, prepared):
    theta = np.linspace(-1, 1, 8)
    used = statistics.xtx @ theta - statistics.xty
    expected = gradient(prepared.X, prepared.y, theta)
    np.testing.assert_allclose(used, expected, rtol=1e-6)


@pytest.mark.parametrize("norm", [0.0, 0.7, 12.0])
def test_gradient_sensitivity_is_reached_and_not_exceeded(norm):
    theta = np.array([norm, 0.0, 0.0])
    limit = float(ADD.gradient_sensitivity(np.array(norm)))
    x, y = records()
    changes = [
        np.linalg.norm(gradient(a[None], b[None], theta))
        for a, b in zip(x[:200], y, strict=False)
    ]
    assert max(changes) <= limit * (1 + 1e-6)
    worst = np.array([[ADD.x_bound, 0.0, 0.0]]), np.array([-ADD.y_bound])
    assert np.linalg.norm(gradient(*worst, theta)) == pytest.approx(limit, rel=1e-6)


@pytest.mark.parametrize("bounds", [ADD, REPLACE], ids=["add", "replace"])
def test_statistics_change_by_at_most_their_sensitivity_and_reach_it(bounds):
    x, y = records()
    outer = x[:, :, None] * x[:, None, :]
    moment = x * y[:, None]
    if bounds.replaces:
        outer, moment = outer[::2] - outer[1::2], moment[::2] - moment[1::2]
    frobenius = np.linalg.norm(outer, axis=(1, 2)).max()
    length = np.linalg.norm(moment, axis=1).max()
    assert 0.99 * bounds.xtx_sensitivity <= frobenius <= bounds.xtx_sensitivity + 1e-9
    assert 0.99 * bounds.xty_sensitivity <= length <= bounds.xty_sensitivity + 1e-9


def test_the_least_eigenvalue_moves_by_at_most_its_sensitivity():
    x, _ = records(300)
    base = np.diag([2.0, 3.0, 4.0])
    least = np.linalg.eigvalsh(base)[0]
    added = base + x[:, :, None] * x[:, None, :]
    replaced = added[::2] - (x[1::2, :, None] * x[1::2, None, :])
    moved = np.abs(np.linalg.eigvalsh(np.concatenate([added, replaced]))[:, 0] - least)
    assert moved.max() <= ADD.lambda_min_sensitivity


def test_replacing_costs_what_the_table_says():
    assert REPLACE.xtx_sensitivity == math.sqrt(2) * ADD.xtx_sensitivity
    assert REPLACE.xty_sensitivity == 2 * ADD.xty_sensitivity
    norm = np.array(3.0)
    assert REPLACE.gradient_sensitivity(norm) == 2 * ADD.gradient_sensitivity(norm)


def test_a_row_beyond_its_bound_is_named_and_clipping_offered():
    x, y = np.array([[1.0], [1.5], [1.6], [9.0]]), np.zeros(4)
    with pytest.raises(ConfigError, match=r"row 3 has norm 1\.6 \(2 of 4.*clip") as no:
        ADD.check(x, y)
    assert no.value.field == "x_bound"
    with pytest.raises(ConfigError, match="row 1 has label 5"):
        ADD.check(x[:1], np.array([-5.0]))


@pytest.mark.parametrize("values", [(0, 1), (1, -2), (1, float("nan")), (1, "5")])
def test_a_bound_must_be_a_positive_number(values):
    with pytest.raises(ConfigError, match="_bound must be"):
        Bounds(*values)


def test_an_unknown_relation_is_refused():
    with pytest.raises(ConfigError, match="add_or_remove_one, replace_one"):
        Bounds(1, 1, "zero_out")


@pytest.mark.parametrize("bound", [1.0, 0.3])
def test_a_row_beyond_its_bound_by_rounding_is_told_with_enough_digits(bound):
    """Rows normalised in float32 are beyond by some 1e-8."""
    rows = np.random.default_rng(1).standard_normal((300, 5))
    rows *= bound / np.linalg.norm(rows, axis=1, keepdims=True)
    x = rows.astype(np.float32)
    with pytest.raises(ConfigError) as caught:
        Bounds(bound, 1.0).check(x.astype(np.float64), np.zeros(300))
    stated, found = re.search(
        r"x_bound = (\S+); row .* has norm (\S+) \(", str(caught.value)
    ).groups()
    assert float(found) > float(stated) == bound
    assert len(found) < 14
