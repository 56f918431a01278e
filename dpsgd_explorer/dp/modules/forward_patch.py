"""Replaces a module's forward on the instance, and restores it."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

from torch import nn

#: Called with (the module's own forward, args, kwargs).
Forward = Callable[[Callable[..., Any], Any, Any], Any]


class ForwardPatch:
    """A forward on the instance; the class, the state dict and hooks are untouched.

    A deep copy of the module, or one read from a file, has its own forward again: no
    engine observes it.
    """

    def __init__(self, module: nn.Module, forward: Forward) -> None:
        self._module = module
        self._replaced = vars(module).get("forward")
        self._own_forward = module.forward
        self._forward = forward
        module.forward = self

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._forward(self._own_forward, args, kwargs)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if self._replaced is not None:
            return deepcopy(self._replaced, memo)
        copy = memo.get(id(self._module), self._module)
        return type(copy).forward.__get__(copy)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return _forward_of, (self._module, self._replaced)

    def remove(self) -> None:
        """Restore the module's own forward."""
        del self._module.forward
        if self._replaced is not None:
            self._module.forward = self._replaced


def _forward_of(module: nn.Module, replaced: Any) -> Any:
    """Return the forward of a module that is being unpickled and has no state yet."""
    return type(module).forward.__get__(module) if replaced is None else replaced
