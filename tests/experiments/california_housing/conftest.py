"""The fixtures of tests/regression: the same table and the same golden values."""

from tests.regression.conftest import golden, prepared, statistics

__all__ = ["golden", "prepared", "statistics"]
