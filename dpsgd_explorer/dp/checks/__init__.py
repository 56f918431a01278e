"""Checks of models, optimizers and losses, and the repair of rejected models."""
