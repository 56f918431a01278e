"""A lottery of batches: the draws of the picture, and what each scheme may promise."""

import random
from collections import Counter

import pytest

from dpsgd_explorer import accounting
from dpsgd_explorer.web.widgets import sampling_lottery as widget

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
        added = accounting.epsilon(*run, steps, widget.DELTA)
        replaced = accounting.epsilon(
            *run, steps, widget.DELTA, neighboring_relation="replace_one"
        )
        fixed = accounting.fixed_size_epsilon(*run, steps, widget.DELTA)
        for name, value in zip(sent, (added, replaced, fixed), strict=True):
            assert value <= float(sent[name]) < value + 0.011, (name, epoch)
        assert added < replaced < fixed


def test_no_number_is_promised_for_a_shuffled_deck():
    shuffled = widget.picture().rows[-1]
    assert shuffled[0] == "shuffled"
    assert not any(character.isdigit() for cell in shuffled for character in cell)
