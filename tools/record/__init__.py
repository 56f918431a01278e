"""Commands that record what pages show: ``python -m tools.record.<name>``."""
