"""DP-SGD for PyTorch: per-sample clipping, noise, Poisson sampling, safety checks."""

from dpsgd_explorer.accounting import schedules
from dpsgd_explorer.dp import choices
from dpsgd_explorer.dp.checks.repairs import make_private_ready
from dpsgd_explorer.dp.checks.rule import check_rule
from dpsgd_explorer.dp.clipping.adaptive import AdaptiveClipping
from dpsgd_explorer.dp.config import Audit, Clipping, Execution, Noise
from dpsgd_explorer.dp.engine import PrivacyEngine, Run, make_private
from dpsgd_explorer.dp.examination import examine
from dpsgd_explorer.dp.functional import (
    ParameterAverage,
    per_sample_gradients,
    per_sample_mean,
    views,
)
from dpsgd_explorer.dp.layers import register_rule
from dpsgd_explorer.dp.layers.base import LayerRule
from dpsgd_explorer.dp.layers.ghost_norm import GhostNorm
from dpsgd_explorer.dp.ledger.receipt import receipt_text
from dpsgd_explorer.dp.sampling.allocation import RandomAllocationSampler
from dpsgd_explorer.dp.sampling.cyclic import FixedSlotsSampler
from dpsgd_explorer.dp.sampling.loader import (
    FixedSlotsLoader,
    PoissonLoader,
    RandomAllocationLoader,
)
from dpsgd_explorer.dp.sampling.sampler import PoissonSampler

__all__ = [
    "AdaptiveClipping",
    "Audit",
    "Clipping",
    "Execution",
    "FixedSlotsLoader",
    "FixedSlotsSampler",
    "GhostNorm",
    "LayerRule",
    "Noise",
    "ParameterAverage",
    "PoissonLoader",
    "PoissonSampler",
    "PrivacyEngine",
    "RandomAllocationLoader",
    "RandomAllocationSampler",
    "Run",
    "check_rule",
    "choices",
    "examine",
    "make_private",
    "make_private_ready",
    "per_sample_gradients",
    "per_sample_mean",
    "receipt_text",
    "register_rule",
    "schedules",
    "views",
]
