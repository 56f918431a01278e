"""Privacy accounting: what a run spends, and the noise that a target needs.

Everything about epsilon and delta comes from here; numpy and scipy only.
"""

from dpsgd_explorer.accounting.accountant import Accountant, Phase
from dpsgd_explorer.accounting.calibration import noise_multiplier, steps
from dpsgd_explorer.accounting.gaussian import (
    gaussian_delta,
    gaussian_epsilon,
    gaussian_noise_multiplier,
)
from dpsgd_explorer.accounting.plan import Plan
from dpsgd_explorer.accounting.queries import delta, epsilon, epsilon_curve
from dpsgd_explorer.accounting.rounding import round_up
from dpsgd_explorer.accounting.table import ACCOUNTANTS

__all__ = [
    "ACCOUNTANTS",
    "Accountant",
    "Phase",
    "Plan",
    "delta",
    "epsilon",
    "epsilon_curve",
    "gaussian_delta",
    "gaussian_epsilon",
    "gaussian_noise_multiplier",
    "noise_multiplier",
    "round_up",
    "steps",
]
