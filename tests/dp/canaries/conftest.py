"""Fixtures of tests that compare whole receipts."""

import pytest

from dpsgd_explorer.dp.ledger import seeds


@pytest.fixture(autouse=True)
def _no_seeds_of_earlier_tests(monkeypatch):
    """Forget them: a receipt says that a seed was used before in the process."""
    monkeypatch.setattr(seeds, "_RUNS", {})
