"""Descriptions of settings, their pydantic fields, messages about invalid values."""
