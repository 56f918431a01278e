"""Replaces the forward, or the whole call, of one module instance, and restores it."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

from torch import nn

#: A function that is called with (the replaced forward, args, kwargs).
Forward = Callable[[Callable[..., Any], Any, Any], Any]


class ForwardPatch:
    """A replacement of an instance's forward; class, state dict and hooks stay.

    A deep copy of the module, or a module read from a file, has the original forward,
    since no engine observes it.

    Args:
        module: The module to patch.
        forward: The function that runs in place of the original forward.
        name: "forward", or "_call_impl" for the call with all hooks around it.
    """

    def __init__(
        self, module: nn.Module, forward: Forward, name: str = "forward"
    ) -> None:
        self._module = module
        self._name = name
        self._replaced = vars(module).get(name)
        self._original = getattr(module, name)
        self._forward = forward
        setattr(module, name, self)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._forward(self._original, args, kwargs)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if self._replaced is not None:
            return deepcopy(self._replaced, memo)
        return _class_method(memo.get(id(self._module), self._module), self._name)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return _forward_of, (self._module, self._replaced, self._name)

    def remove(self) -> None:
        """Restores the original forward; a second call has no effect."""
        vars(self._module).pop(self._name, None)
        if self._replaced is not None:
            setattr(self._module, self._name, self._replaced)


def _class_method(module: nn.Module, name: str) -> Any:
    return getattr(type(module), name).__get__(module)


def _forward_of(module: nn.Module, replaced: Any, name: str = "forward") -> Any:
    """Returns the forward of a module that is being unpickled and has no state yet.

    Pickled modules contain the name of this function, so it must not change.
    """
    return _class_method(module, name) if replaced is None else replaced
