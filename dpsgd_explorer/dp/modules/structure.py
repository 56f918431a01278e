"""The structure of a module: submodules, forwards, hooks and parameters.

The safety check holds for the structure that it saw.  The structure is compared before
every pass, and a module that has changed is checked again.  Hooks are compared as
functions: one that is removed and registered again changes nothing.
"""

from __future__ import annotations

from operator import is_
from typing import Any, NamedTuple

from torch import nn
from torch.nn.modules import module as torch_module

from dpsgd_explorer.dp.modules.forward_patch import ForwardPatch
from dpsgd_explorer.dp.modules.hooks import ModuleHook

GLOBAL_HOOKS: tuple[dict[int, Any], ...] = (
    torch_module._global_forward_pre_hooks,
    torch_module._global_forward_hooks,
    torch_module._global_backward_pre_hooks,
    torch_module._global_backward_hooks,
)


class _Part(NamedTuple):
    """One module at that time, without an engine's patch.

    Attributes:
        every_hook: Its hooks, an engine's among them: as long as these stay, so do the
            others.
        hooks: Those of no engine.
    """

    module: nn.Module
    kind: type[nn.Module]
    forward: Any
    own_forward: Any
    children: list[nn.Module | None]
    every_hook: list[Any]
    hooks: list[Any]
    parameters: list[nn.Parameter | None]
    trained: list[bool]


class Structure:
    """The structure of a module at the time of construction."""

    def __init__(self, module: nn.Module) -> None:
        self._parts = [_part(submodule) for submodule in module.modules()]
        self._global_hooks = _global_hooks()

    def holds(self) -> bool:
        """Whether the module still has this structure."""
        has_global = any(GLOBAL_HOOKS) or self._global_hooks
        if has_global and _global_hooks() != self._global_hooks:
            return False
        for (
            module,
            kind,
            forward,
            own_forward,
            children,
            every_hook,
            hooks,
            old,
            trained,
        ) in self._parts:
            # Runs before every pass: dictionaries are read directly, since nn.Module's
            # attribute look-up takes several times as long.
            inside = module.__dict__
            parameters = inside["_parameters"].values()
            own = inside.get("forward")
            if (
                module.__class__ is not kind
                or kind.forward is not forward
                or (own is not own_forward and _own_forward(inside) is not own_forward)
                or (
                    ((found := inside["_modules"]) or children)
                    and [*found.values()] != children
                )
                or (
                    (present := _hooks(inside)) != every_hook
                    and _foreign(present) != hooks
                )
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
    hooks = _hooks(inside)
    return _Part(
        module,
        kind,
        kind.forward,
        _own_forward(inside),
        [*inside["_modules"].values()],
        hooks,
        _foreign(hooks),
        parameters,
        _trained(parameters),
    )


def _own_forward(inside: dict[str, Any]) -> Any:
    forward = inside.get("forward")
    return None if forward.__class__ is ForwardPatch else forward


def _hooks(inside: dict[str, Any]) -> list[Any]:
    return [
        *inside["_forward_pre_hooks"].values(),
        *inside["_forward_hooks"].values(),
        *inside["_backward_pre_hooks"].values(),
        *inside["_backward_hooks"].values(),
    ]


def _foreign(hooks: list[Any]) -> list[Any]:
    """Return the hooks that are no engine's."""
    return [hook for hook in hooks if hook.__class__ is not ModuleHook]


def _trained(parameters: Any) -> list[bool]:
    return [p is not None and p.requires_grad for p in parameters]


def _global_hooks() -> list[Any]:
    return [hook for hooks in GLOBAL_HOOKS for hook in hooks.values()]
