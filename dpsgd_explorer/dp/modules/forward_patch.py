"""Replaces a module's forward, or its whole call, on the instance, and restores it."""

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

    Args:
        module: Whose forward is replaced.
        forward: Runs in its place.
        name: "forward", or "_call_impl" for the call with all hooks around it.
    """

    def __init__(
        self, module: nn.Module, forward: Forward, name: str = "forward"
    ) -> None:
        self._module = module
        self._name = name
        self._replaced = vars(module).get(name)
        self._own_forward = getattr(module, name)
        self._forward = forward
        setattr(module, name, self)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._forward(self._own_forward, args, kwargs)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if self._replaced is not None:
            return deepcopy(self._replaced, memo)
        return _own(memo.get(id(self._module), self._module), self._name)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return _forward_of, (self._module, self._replaced, self._name)

    def remove(self) -> None:
        """Restore the module's own forward; may be repeated after an interrupt."""
        vars(self._module).pop(self._name, None)
        if self._replaced is not None:
            setattr(self._module, self._name, self._replaced)


def _own(module: nn.Module, name: str) -> Any:
    return getattr(type(module), name).__get__(module)


def _forward_of(module: nn.Module, replaced: Any, name: str = "forward") -> Any:
    """Return the forward of a module that is being unpickled and has no state yet."""
    return _own(module, name) if replaced is None else replaced
