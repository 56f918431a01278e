"""See, run and check differentially private training."""

__version__ = "0.1.0"
