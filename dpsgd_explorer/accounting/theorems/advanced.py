"""Advanced composition: the first bound that grows with √T.

k steps that are (ε, δ) are together (ε', kδ + δ'), with

    ε' = ε √(2k log(1/δ')) + kε (e^ε - 1);

for unequal steps kε² and kε (e^ε - 1) become sums over the steps, by the same proof.

Source: Dwork, Rothblum and Vadhan (2010), Theorem III.3.
"""

from __future__ import annotations

import numpy as np

from dpsgd_explorer.accounting.core.accountant import Floats
from dpsgd_explorer.accounting.theorems.by_step import ByStepAccountant


class AdvancedAccountant(ByStepAccountant):
    """Applies the theorem of Dwork, Rothblum and Vadhan, with the best split of δ."""

    label = "Advanced composition"
    note = (
        "Never too small. Grows with √T, but its second term makes it worse than "
        "basic composition where a step spends much."
    )

    def composed(self, counts: Floats, losses: Floats, slack: Floats) -> Floats:
        spread = 2 * (counts * losses**2).sum(axis=-1)  # [S, H]
        drift = (counts * losses * np.expm1(losses)).sum(axis=-1)
        return np.asarray(np.sqrt(spread * -np.log(slack)) + drift)
