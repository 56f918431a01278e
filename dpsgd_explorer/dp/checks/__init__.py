"""Checks of models, optimizers and losses before and during training."""
