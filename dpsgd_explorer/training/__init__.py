"""How runs are carried out: data sets, models and training loops."""
