"""Files that a run is taken away in: a report, a script, a notebook."""
