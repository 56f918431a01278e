"""Support for models wrapped in ``DistributedDataParallel`` or by Fabric."""

from __future__ import annotations

from collections.abc import Callable

from torch import nn
from torch.nn.parallel import DistributedDataParallel

from dpsgd_explorer.dp.distributed.fabric import without_fabric
from dpsgd_explorer.dp.distributed.ranks import ALONE, Ranks


def unwrapped(module: nn.Module, ranks: Ranks) -> nn.Module:
    """Returns the module inside a wrapper of Fabric or a ``DistributedDataParallel``.

    Without a group a ``DistributedDataParallel`` is returned unchanged; a later check
    raises the error that explains why.
    """
    module = without_fabric(module)
    if ranks is ALONE or type(module) is not DistributedDataParallel:
        return module
    inner: nn.Module = module.module
    return inner


def disable_synchronization(module: nn.Module) -> Callable[[], None]:
    """Stops a ``DistributedDataParallel`` from averaging gradients and copying buffers.

    The engine sums the clipped gradients over the ranks itself.  Ranks may call the
    module a different number of times per batch, and the wrapper's collective
    operations would then wait forever.

    Returns:
        Function that enables averaging and copying again.
    """
    if type(module) is not DistributedDataParallel:
        return lambda: None
    before = module.require_backward_grad_sync, module.require_forward_param_sync
    module.require_backward_grad_sync = module.require_forward_param_sync = False

    def enable() -> None:
        module.require_backward_grad_sync, module.require_forward_param_sync = before

    return enable
