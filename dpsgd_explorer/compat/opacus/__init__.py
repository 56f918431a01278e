"""The names of Opacus for this library's engine.

A script for Opacus trains with this library if you import its names from here:

    from dpsgd_explorer.compat.opacus import BatchMemoryManager, PrivacyEngine

Arguments have the meaning that they have in Opacus 1.6.  An argument that cannot have
the same meaning here raises ``ConfigError``, which names the remedy.  The page on this
module in the reference lists the differences.
"""

from typing import Any

from torch import nn
from torch.optim import Optimizer

from dpsgd_explorer.compat.opacus.batch_memory_manager import BatchMemoryManager
from dpsgd_explorer.compat.opacus.module_validator import ModuleValidator
from dpsgd_explorer.compat.opacus.privacy_engine import PrivacyEngine
from dpsgd_explorer.dp import PoissonLoader

DPLSTM = nn.LSTM
DPGRU = nn.GRU
DPRNN = nn.RNN
DPMultiheadAttention = nn.MultiheadAttention
DPOptimizer = Optimizer
DPDataLoader = PoissonLoader

__all__ = [
    "DPGRU",
    "DPLSTM",
    "DPRNN",
    "BatchMemoryManager",
    "DPDataLoader",
    "DPMultiheadAttention",
    "DPOptimizer",
    "ModuleValidator",
    "PrivacyEngine",
]

#: Names of Opacus that do not exist here, with what to use instead.
ABSENT = {
    "GradSampleModule": "Use dp.per_sample_gradients(model, loss_fn, x, y).",
    "GradSampleModuleFastGradientClipping": 'Use grad_sample_mode="ghost".',
    "DPLossFastGradientClipping": 'Use grad_sample_mode="ghost"; any loss works.',
    "DifferentiallyPrivateDistributedDataParallel": (
        "Use dp.PrivacyEngine(..., group=torch.distributed.group.WORLD)."
    ),
    "register_grad_sampler": "Use dp.register_rule(MyLayer, MyRule()).",
    "wrap_data_loader": "Use BatchMemoryManager.",
    "ExponentialNoise": "Use dp.Noise(schedule=dp.schedules...).",
    "LambdaNoise": "Use dp.Noise(schedule=dp.schedules...).",
    "StepNoise": "Use dp.Noise(schedule=dp.schedules...).",
    "RDPAccountant": "Use dpsgd_explorer.accounting.",
    "PRVAccountant": "Use dpsgd_explorer.accounting.",
    "GaussianAccountant": "Use dpsgd_explorer.accounting.",
}


def __getattr__(name: str) -> Any:
    if name in ABSENT:
        raise ImportError(f"{name} of Opacus does not exist here. {ABSENT[name]}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
