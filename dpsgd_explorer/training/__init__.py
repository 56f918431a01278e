"""How runs are carried out: data sets, models and loops.  Loads torch."""
