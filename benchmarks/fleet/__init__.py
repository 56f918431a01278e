"""A whole site under many visitors."""
