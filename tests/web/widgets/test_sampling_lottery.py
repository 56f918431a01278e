"""A lottery of batches: the draws of the picture, and what each scheme may promise."""

import math
import random
from collections import Counter

import pytest
from scipy import stats

from dpsgd_explorer import accounting
from dpsgd_explorer.web.hub.widgets.sampling_lottery import widget
from tests.in_order import in_order

STEPS = 4000 * widget.STEPS_PER_EPOCH


@pytest.mark.parametrize(("name", "draw"), widget.SCHEMES)
def test_every_scheme_expects_the_same_size(name, draw):
    batches = draw(STEPS, random.Random(1))  # seeded: no false alarm
    assert len(batches) == STEPS
    mean = sum(map(len, batches)) / STEPS
    assert mean == pytest.approx(widget.BATCH_SIZE, abs=0.1)
    assert all(len(set(batch)) == len(batch) for batch in batches)
    used = Counter(record for batch in batches for record in batch)
    assert len(used) == widget.RECORDS
    assert max(used.values()) < 1.1 * min(used.values())


def test_only_a_shuffled_deck_uses_each_record_once_per_epoch():
    batches = widget.shuffled(STEPS, random.Random(2))
    for start in range(0, STEPS, widget.STEPS_PER_EPOCH):
        epoch = batches[start : start + widget.STEPS_PER_EPOCH]
        assert sorted(record for batch in epoch for record in batch) == list(
            range(widget.RECORDS)
        )


def test_promises_are_those_of_the_accountants():
    rate = widget.BATCH_SIZE / widget.RECORDS
    run = (rate, widget.NOISE_MULTIPLIER)
    for epoch, sent in enumerate(widget.promises(), start=1):
        steps = epoch * widget.STEPS_PER_EPOCH
        added = in_order(accounting.epsilon, *run, steps, widget.DELTA)
        replaced = in_order(
            accounting.epsilon,
            *run,
            steps,
            widget.DELTA,
            neighboring_relation="replace_one",
        )
        fixed = in_order(accounting.fixed_size_epsilon, *run, steps, widget.DELTA)
        half = widget.NOISE_MULTIPLIER / 2
        shuffled = accounting.gaussian_epsilon(
            delta=widget.DELTA, noise_multiplier=half, steps=epoch
        )
        allocation = accounting.random_allocation_epsilon(
            noise_multiplier=widget.NOISE_MULTIPLIER,
            slots=widget.STEPS_PER_EPOCH,
            epochs=epoch,
            delta=widget.DELTA,
        )
        values = (added, replaced, fixed, shuffled, allocation)
        for name, value in zip(sent, values, strict=True):
            assert value <= float(sent[name]) < value + 0.011, (name, epoch)
        assert allocation < added < replaced < fixed


def test_a_shuffled_deck_is_bounded_by_one_gaussian_release_per_epoch():
    """By the closed form of Balle and Wang (2018) for one record replaced."""
    for epochs, sent in enumerate(widget.promises(), start=1):
        mu = 2 * epochs**0.5 / widget.NOISE_MULTIPLIER

        def delta(epsilon, mu=mu):
            far, near = -epsilon / mu - mu / 2, -epsilon / mu + mu / 2
            return stats.norm.cdf(near) - math.exp(epsilon) * stats.norm.cdf(far)

        bound = float(sent["shuffled"])
        assert delta(bound) <= widget.DELTA < delta(bound - 0.011)
    assert [float(widget.promises()[i]["shuffled"]) for i in (0, 2)] == [2.76, 5.18]


def test_what_is_not_computed_is_not_called_impossible():
    rows = {row[0]: row[1:] for row in widget.picture().rows}
    for name in ("fixed size, drawn for each step", "shuffled"):
        assert rows[name][0] == "not computed here"
        assert rows[name][1].endswith("(bound)")
    exact = float(rows["Poisson"][1].split()[0])
    assert exact < float(rows["shuffled"][1].split()[0])
