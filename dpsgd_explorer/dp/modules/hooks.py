"""Hooks of ours on a module, which its copies leave behind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


class ModuleHook:
    """A forward hook, or hook before a forward, that belongs to one module alone.

    A deep copy of the module, or one read from a file, has a hook in its place that
    does nothing.  ``torch.compile`` runs hooks as they are instead of tracing them.
    """

    def __init__(self, run: Callable[..., Any]) -> None:
        self._run = run

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._run(*args, **kwargs)

    def __deepcopy__(self, memo: dict[int, Any]) -> ModuleHook:
        return ModuleHook(_ignore)

    def __reduce__(self) -> tuple[type[ModuleHook], tuple[Callable[..., None]]]:
        return ModuleHook, (_ignore,)


def _ignore(*args: Any, **kwargs: Any) -> None:
    """Do nothing."""
