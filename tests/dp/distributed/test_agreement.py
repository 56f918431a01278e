"""Fingerprints: tensors that differ have different ones, wherever they differ."""

import pytest
import torch

from dpsgd_explorer.dp.distributed.agreement import fingerprint

OTHERS = {
    "all entries": lambda: torch.full((4, 2), 2.0),
    "two entries alike": lambda: torch.ones(4, 2).index_fill_(0, torch.tensor(1), 2.0),
    "one sign": lambda: torch.ones(8).index_fill_(0, torch.tensor(3), -1.0),
    "the type": lambda: torch.ones(4, 2, dtype=torch.float64),
    "the number": lambda: torch.ones(6),
    "nothing": lambda: torch.empty(0),
}


@pytest.mark.parametrize("name", OTHERS)
def test_tensors_that_differ_are_told_apart(name):
    assert fingerprint([OTHERS[name]()]) != fingerprint([torch.ones(4, 2)])


def test_the_order_of_entries_and_of_tensors_counts():
    rising = torch.arange(6.0)
    assert fingerprint([rising]) != fingerprint([rising.flip(0)])
    parts = [rising[:2], rising[2:]]
    assert fingerprint(parts) != fingerprint(parts[::-1])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.bool, torch.int64])
def test_every_type_and_layout_has_one(dtype):
    table = torch.arange(12).view(3, 4).to(dtype)
    assert fingerprint([table.T]) == fingerprint([table.T.contiguous()])
    assert fingerprint([table[0, 0]]) == fingerprint([table[:1, :1]])
