"""The commands of ``python -m dpsgd_explorer``."""
