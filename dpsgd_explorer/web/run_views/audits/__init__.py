"""Runs that put a training loop to an audit, as they are listed and shown."""
