"""Commands that record the data of pages: ``python -m tools.record.<name>``."""
