"""Forms generated from the settings of runs."""
