"""Differential privacy in the trainers of other libraries; each needs its own extra."""
