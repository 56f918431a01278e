"""Configuration, data sets, models and the loop of one training run.

``config``, ``catalogue``, ``events`` and ``presets`` load no torch.
"""
