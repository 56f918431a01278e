"""Tests of a privacy promise from outside: attacks on models, and checks of receipts.

`dpsgd_explorer.accounting.auditing` computes lower bounds on ε from the scores of
canaries; `dpsgd_explorer.dp.canaries` adds the canaries to a run.  This package does
not import torch.
"""

from dpsgd_explorer.audit.attacks.membership import (
    ATTACKS,
    Signals,
    likelihood_ratio_scores,
    loss_scores,
    relative_likelihood_scores,
)
from dpsgd_explorer.audit.attacks.roc import Roc
from dpsgd_explorer.audit.receipts.file import read_receipt
from dpsgd_explorer.audit.receipts.findings import Figure, Findings
from dpsgd_explorer.audit.receipts.verification import verify_receipt

__all__ = [
    "ATTACKS",
    "Figure",
    "Findings",
    "Roc",
    "Signals",
    "likelihood_ratio_scores",
    "loss_scores",
    "read_receipt",
    "relative_likelihood_scores",
    "verify_receipt",
]
