"""Basic composition: what the steps spend is added up.

Source: Dwork, Kenthapadi, McSherry, Mironov and Naor (2006), Theorem 1.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from dpsgd_explorer.accounting.core.accountant import Floats
from dpsgd_explorer.accounting.theorems.by_step import ByStepAccountant


class BasicAccountant(ByStepAccountant):
    """Adds the ε and the δ of all steps."""

    label = "Basic composition"
    note = (
        "Never too small. Adds up the ε of all steps, amplified by sampling, and "
        "so grows with T where the truth grows with √T."
    )
    shares: ClassVar[Floats] = np.zeros(1)

    def composed(self, counts: Floats, losses: Floats, slack: Floats) -> Floats:
        return np.asarray((counts * losses).sum(axis=-1))
