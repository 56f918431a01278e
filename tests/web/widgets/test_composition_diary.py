"""A diary of releases: totals against the accountants, and what a filter refuses."""

import math
from itertools import pairwise

import numpy as np
import pytest

from dpsgd_explorer import accounting
from dpsgd_explorer.accounting import Odometer, RenyiFilter
from dpsgd_explorer.errors import AccountingError
from dpsgd_explorer.web.hub.widgets.composition_diary import widget

KINDS = list(widget.ALONE)


@pytest.fixture(scope="module")
def table():
    return widget.table()


def phases_of(counts):
    odometer = Odometer()
    for kind, count in zip(KINDS[:2], counts[:2], strict=True):
        run = widget.phase(kind)
        if count:
            steps = run.steps * count
            odometer.add_dp_sgd(run.sample_rate, run.noise_multiplier, steps, kind)
    return odometer


def test_without_counts_the_total_is_the_exact_accountants(table):
    for counts, entry in table.items():
        if counts[2] == 0:
            exact = phases_of(counts).epsilon(widget.DELTA)
            assert exact * (1 - 1e-9) <= entry.together < exact + 1e-4, counts


def test_with_counts_delta_is_the_mean_over_their_losses(table):
    """δ of a mixture: losses of n counts are ±0.5, so their sum is binomial."""
    one = widget.ALONE[widget.COUNT]
    likely = math.exp(one) / (1 + math.exp(one))
    for counts in [(1, 1, 2), (0, 3, 1), (2, 0, 3), (0, 0, 4)]:
        *others, n = counts
        entry = table[counts]
        law = [
            (math.comb(n, k) * likely**k * (1 - likely) ** (n - k), (2 * k - n) * one)
            for k in range(n + 1)
        ]
        run = phases_of((*others, 0)).phases

        def spent(epsilon, run=run, law=law):
            losses = [epsilon - loss for _, loss in law]
            return sum(
                p * beyond(run, loss) for (p, _), loss in zip(law, losses, strict=True)
            )

        assert spent(entry.together * (1 + 1e-9)) <= widget.DELTA * (1 + 1e-6), counts
        assert spent(entry.together - 2e-3) > widget.DELTA, counts


def beyond(phases, loss):
    """Return the exact δ at any loss, for the worse of both directions."""
    if not phases:
        return max(-math.expm1(loss), 0.0)
    at = abs(loss)
    [side] = accounting.ACCOUNTANTS["exact"].delta_bounds(
        phases, [at], accounting.NeighboringRelation.ADD_OR_REMOVE_ONE
    )
    # At a negative loss the other direction's δ decides: δ(-ℓ) = 1 - e^-ℓ + e^-ℓ δ'(ℓ).
    return side.value if loss >= 0 else -math.expm1(-at) + math.exp(-at) * side.value


def test_added_up_is_each_at_its_share_and_never_below_together(table):
    for (runs, sums, tables), entry in table.items():
        share = widget.DELTA / max(runs + sums, 1)
        run, one = widget.phase("run"), widget.phase("sum")
        each = accounting.epsilon(
            sample_rate=run.sample_rate,
            noise_multiplier=run.noise_multiplier,
            steps=run.steps,
            delta=share,
        )
        gauss = accounting.gaussian_epsilon(
            delta=share, noise_multiplier=one.noise_multiplier
        )
        assert entry.added == pytest.approx(runs * each + sums * gauss + 0.5 * tables)
        assert entry.together <= entry.added


def test_a_filter_refuses_where_the_printed_share_passes_all_of_it(table):
    for counts, entry in table.items():
        gate = RenyiFilter(widget.BUDGET, widget.DELTA)
        fits = True
        try:
            for kind, count in zip(KINDS, counts, strict=True):
                for _ in range(count):
                    gate.spend_curve(widget.divergences(kind))
        except AccountingError:
            fits = False
        assert fits == (int(entry.words[2]) <= 100), counts
        if fits:  # what a filter lets through keeps the budget
            assert entry.together <= widget.BUDGET


def test_counts_have_the_divergences_of_their_two_losses():
    one = widget.ALONE[widget.COUNT]
    p = np.array([math.exp(one), 1.0]) / (1 + math.exp(one))
    for order in (1.5, 2.0, 8.0):
        moment = float(np.sum(p**order * p[::-1] ** (1 - order)))
        found = float(widget.divergences(widget.COUNT).at([order])[0])
        assert found == pytest.approx(math.log(moment) / (order - 1), rel=1e-6)


def test_every_release_that_may_be_asked_for_is_in_the_table(table):
    spent = widget.data()["spent"]
    assert len(spent) == len(table)
    for counts, entry in table.items():
        if widget.is_within(entry.together):
            for place in range(3):
                more = [count + (i == place) for i, count in enumerate(counts)]
                assert "".join(map(str, more)) in spent


def test_the_pictures_diary_ends_with_the_first_release_beyond_the_budget():
    *kept, (_, last) = widget.shown()
    assert kept
    assert not widget.is_within(last.together)
    assert all(widget.is_within(one.together) for _, one in kept)
    for name in ("added", "together", "filtered"):
        values = [getattr(one, name) for _, one in widget.shown()]
        assert all(a < b for a, b in pairwise(values))
