"""What a module consists of: submodules, forwards, hooks and parameters.

The safety check proves something of a module as it was.  Its structure is compared
before every pass, and a module that was changed since is checked anew.
"""

from __future__ import annotations

from operator import is_
from typing import Any, NamedTuple

from torch import nn
from torch.nn.modules import module as torch_module

GLOBAL_HOOKS: tuple[dict[int, Any], ...] = (
    torch_module._global_forward_pre_hooks,
    torch_module._global_forward_hooks,
    torch_module._global_backward_pre_hooks,
    torch_module._global_backward_hooks,
)


class _Part(NamedTuple):
    """One module as it was; hooks are known by their handles' numbers."""

    module: nn.Module
    kind: type[nn.Module]
    forward: Any
    own_forward: Any
    children: list[nn.Module | None]
    hooks: list[int]
    parameters: list[nn.Parameter | None]
    trained: list[bool]


class Structure:
    """The structure of a module at the time this is made."""

    def __init__(self, module: nn.Module) -> None:
        self._parts = [_part(each) for each in module.modules()]
        self._global_hooks = _global_hooks()

    def holds(self) -> bool:
        """Whether nothing has changed since."""
        if _global_hooks() != self._global_hooks:
            return False
        for (
            module,
            kind,
            forward,
            own_forward,
            children,
            hooks,
            old,
            trained,
        ) in self._parts:
            inside = module.__dict__
            parameters = inside["_parameters"].values()
            if (
                module.__class__ is not kind
                or kind.forward is not forward
                or inside.get("forward") is not own_forward
                or [*inside["_modules"].values()] != children
                or _hooks(inside) != hooks
                or len(parameters) != len(old)
                or not all(map(is_, parameters, old))
                or (old and _trained(parameters) != trained)
            ):
                return False
        return True


def _part(module: nn.Module) -> _Part:
    inside = module.__dict__
    kind = type(module)
    parameters = [*inside["_parameters"].values()]
    return _Part(
        module,
        kind,
        kind.forward,
        inside.get("forward"),
        [*inside["_modules"].values()],
        _hooks(inside),
        parameters,
        _trained(parameters),
    )


def _hooks(inside: dict[str, Any]) -> list[int]:
    return [
        *inside["_forward_pre_hooks"],
        *inside["_forward_hooks"],
        *inside["_backward_pre_hooks"],
        *inside["_backward_hooks"],
    ]


def _trained(parameters: Any) -> list[bool]:
    return [p is not None and p.requires_grad for p in parameters]


def _global_hooks() -> list[int]:
    return [number for hooks in GLOBAL_HOOKS for number in hooks]
