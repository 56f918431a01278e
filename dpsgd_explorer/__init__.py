"""See, run and check differentially private training."""

__version__ = "0.2.0"
