"""Runs recorded by commands in tools/, and what reads them."""
