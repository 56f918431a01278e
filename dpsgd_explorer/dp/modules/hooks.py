"""Hooks of an engine on a module, which do nothing on copies of the module."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch._compile import _disable_dynamo


class ModuleHook:
    """A forward hook or forward pre-hook of one module.

    On a deep copy of the module, or a module read from a file, the hook does nothing.
    ``torch.compile`` calls the hook instead of tracing it.
    """

    def __init__(self, run: Callable[..., Any]) -> None:
        self._run = run

    # torch.compiler.disable imports torch._dynamo, which takes longer to import than
    # this package.  This decorator, which torch.optim uses too, imports it at the first
    # call.
    @_disable_dynamo
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._run(*args, **kwargs)

    def __deepcopy__(self, memo: dict[int, Any]) -> ModuleHook:
        return ModuleHook(_ignore)

    def __reduce__(self) -> tuple[type[ModuleHook], tuple[Callable[..., None]]]:
        return ModuleHook, (_ignore,)


def _ignore(*args: Any, **kwargs: Any) -> None:
    """Does nothing."""
