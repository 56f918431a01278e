"""Exports of a run: report, script, notebook."""
