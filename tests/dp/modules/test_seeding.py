"""Seeding gives torch's own draws, and keeps nothing."""

import torch

from dpsgd_explorer.dp.modules.seeding import seed_draws


def test_draws_are_those_of_torch_and_no_call_is_kept_for_devices():
    before = len(torch.cuda._queued_calls)
    seed_draws(5)
    drawn = torch.randn(3)
    if not torch.accelerator.is_available():
        assert len(torch.cuda._queued_calls) == before
    torch.manual_seed(5)
    assert torch.equal(drawn, torch.randn(3))
