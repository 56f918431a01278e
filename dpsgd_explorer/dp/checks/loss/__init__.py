"""The check that the loss of a batch keeps its samples apart."""
