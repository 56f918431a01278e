"""Private linear regression: from noisy statistics, or by noisy gradient descent.

The package needs numpy and ``dpsgd_explorer.accounting`` only.  Every budget is
accounted as one Gaussian mechanism, exactly.
"""

from dpsgd_explorer.regression.bounds import Bounds
from dpsgd_explorer.regression.comparison import compare
from dpsgd_explorer.regression.noisy_gd import noisy_gradient_descent
from dpsgd_explorer.regression.perturbation import adassp, ssp
from dpsgd_explorer.regression.preprocessing import Preprocessing

__all__ = [
    "Bounds",
    "Preprocessing",
    "adassp",
    "compare",
    "noisy_gradient_descent",
    "ssp",
]
