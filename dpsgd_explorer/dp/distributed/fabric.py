"""Recognizes the objects that Lightning Fabric puts around a module.

Fabric is not imported: an object of Fabric can only exist after somebody else did.
"""

from __future__ import annotations

import sys
from typing import Any

from torch import nn

#: Modules that define the wrappers, in the packages ``lightning`` and its parts.
WRAPPERS = ("lightning.fabric.wrappers", "lightning_fabric.wrappers")


def without_fabric(module: nn.Module) -> nn.Module:
    """Returns the module inside a wrapper of ``Fabric.setup``, or the module itself.

    The wrapper calls the module inside, under autocast where Fabric is set to it.
    """
    if type(module) not in _defined("_FabricModule"):
        return module
    inner: nn.Module = module.module  # type: ignore[assignment]
    return inner


def is_hook_of_fabric(hook: Any) -> bool:
    """Returns True for Fabric's hook on outputs, which changes no gradient.

    It raises an error unless ``fabric.backward`` has called backward.
    """
    function = getattr(hook, "func", None)
    return any(function is known for known in _defined("_backward_hook"))


def _defined(name: str) -> list[Any]:
    """Returns the objects of a name in the modules of Fabric that are loaded."""
    loaded = [sys.modules[module] for module in WRAPPERS if module in sys.modules]
    return [vars(module)[name] for module in loaded if name in vars(module)]
