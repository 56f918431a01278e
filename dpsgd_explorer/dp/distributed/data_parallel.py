"""The module inside ``DistributedDataParallel``, without the wrapper's averaging."""

from __future__ import annotations

from collections.abc import Callable

from torch import nn
from torch.nn.parallel import DistributedDataParallel

from dpsgd_explorer.dp.distributed.ranks import ALONE, Ranks


def unwrapped(module: nn.Module, ranks: Ranks) -> nn.Module:
    """Return the module inside the wrapper; without a group, what was given.

    A wrapper without a group is refused later, with the reason.
    """
    if ranks is ALONE or type(module) is not DistributedDataParallel:
        return module
    inner: nn.Module = module.module
    return inner


def switch_off(module: nn.Module) -> Callable[[], None]:
    """Let the wrapper neither average gradients nor copy buffers.

    The engine adds clipped gradients up itself.  Ranks may call the module a different
    number of times per batch, and each of the wrapper's copies is a meeting of ranks.

    Returns:
        What switches both on again.
    """
    if type(module) is not DistributedDataParallel:
        return lambda: None
    before = module.require_backward_grad_sync, module.require_forward_param_sync
    module.require_backward_grad_sync = module.require_forward_param_sync = False

    def switch_on() -> None:
        module.require_backward_grad_sync, module.require_forward_param_sync = before

    return switch_on
