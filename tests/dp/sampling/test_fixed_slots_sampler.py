"""The sampler of fixed slots: the draw of each record."""

import pytest
import torch
from scipy import stats

from dpsgd_explorer.accounting import Plan
from dpsgd_explorer.dp.noise.aes_stream import KeyStream
from dpsgd_explorer.dp.sampling.cyclic import FixedSlotsSampler
from tests.dp.laws import ALARM

SLOTS, STEPS = 8, 20


@pytest.mark.parametrize("seed", range(3))
def test_no_slot_changes_when_another_record_is_removed(seed):
    def slots(size):
        plan = Plan.create(
            sample_size=size,
            expected_batch_size=-(-size // SLOTS),
            steps=STEPS,
            noise_multiplier=1.0,
            delta=1e-6,
            sampling="fixed_slots",
        )
        drawn = FixedSlotsSampler(plan, torch.Generator().manual_seed(seed))
        of_each = torch.empty(size, dtype=torch.int64)
        for slot, records in enumerate(drawn.groups()):
            of_each[records] = slot
        return of_each

    assert torch.equal(slots(400)[:399], slots(399))


def test_secret_slots_are_equally_likely_and_independent():
    size = 80_000
    plan = Plan.create(
        sample_size=size,
        expected_batch_size=size // SLOTS,
        steps=STEPS,
        noise_multiplier=1.0,
        delta=1e-6,
        sampling="fixed_slots",
    )
    slots = torch.empty(size, dtype=torch.int64)
    for slot, records in enumerate(FixedSlotsSampler(plan, KeyStream()).groups()):
        slots[records] = slot
    pairs = torch.bincount(slots[:-1] * SLOTS + slots[1:], minlength=SLOTS**2)
    assert stats.chisquare(pairs).pvalue > ALARM
