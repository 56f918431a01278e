"""The structure of a module: submodules, forwards, hooks and parameters.

The result of a safety check is valid for one structure.  The structure is compared
before every pass, and a module that has changed is checked again.  Hooks are compared
as functions, so a hook may be removed and registered again.
"""

from __future__ import annotations

from operator import is_
from typing import Any, NamedTuple

from torch import nn
from torch.nn.modules import module as torch_module

from dpsgd_explorer.dp.modules.forward_patch import ForwardPatch
from dpsgd_explorer.dp.modules.hooks import ModuleHook

#: Torch's tables of hooks that run for all modules.
GLOBAL_HOOKS: tuple[dict[int, Any], ...] = (
    torch_module._global_forward_pre_hooks,
    torch_module._global_forward_hooks,
    torch_module._global_backward_pre_hooks,
    torch_module._global_backward_hooks,
)


class _Part(NamedTuple):
    """The structure of one submodule, without the patch of an engine.

    Attributes:
        module: The submodule.
        kind: Class of the submodule.
        forward: Forward of the class.
        instance_forward: Forward of the instance; None if it has no forward, or the
            patch of an engine.
        children: The modules inside.
        all_hooks: Hooks of users and engines.  They are compared first, since equality
            implies equal user hooks and needs no new list.
        user_hooks: Hooks of users.
        parameters: The parameters of the submodule.
        trained: For each parameter, True if it requires a gradient.
    """

    module: nn.Module
    kind: type[nn.Module]
    forward: Any
    instance_forward: Any
    children: list[nn.Module | None]
    all_hooks: list[Any]
    user_hooks: list[Any]
    parameters: list[nn.Parameter | None]
    trained: list[bool]


class Structure:
    """The structure of a module at the time of construction."""

    def __init__(self, module: nn.Module) -> None:
        self._parts = [_part(submodule) for submodule in module.modules()]
        self._global_hooks = _global_hooks()

    def holds(self) -> bool:
        """Returns True if the module still has this structure."""
        has_global = any(GLOBAL_HOOKS) or self._global_hooks
        if has_global and _global_hooks() != self._global_hooks:
            return False
        for (
            module,
            kind,
            forward,
            instance_forward,
            children,
            all_hooks,
            user_hooks,
            old_parameters,
            trained,
        ) in self._parts:
            # This runs before every pass.  Dictionaries are read directly, since the
            # attribute look-up of nn.Module takes several times as long.
            attributes = module.__dict__
            parameters = attributes["_parameters"].values()
            if (
                module.__class__ is not kind
                or kind.forward is not forward
                or (
                    attributes.get("forward") is not instance_forward
                    and _instance_forward(attributes) is not instance_forward
                )
                or (
                    ((modules := attributes["_modules"]) or children)
                    and [*modules.values()] != children
                )
                or (
                    (hooks := _hooks(attributes)) != all_hooks
                    and _user_hooks(hooks) != user_hooks
                )
                or len(parameters) != len(old_parameters)
                or not all(map(is_, parameters, old_parameters))
                or (
                    old_parameters
                    and [p is not None and p.requires_grad for p in parameters]
                    != trained
                )
            ):
                return False
        return True


def _part(module: nn.Module) -> _Part:
    attributes = module.__dict__
    kind = type(module)
    parameters = [*attributes["_parameters"].values()]
    hooks = _hooks(attributes)
    return _Part(
        module,
        kind,
        kind.forward,
        _instance_forward(attributes),
        [*attributes["_modules"].values()],
        hooks,
        _user_hooks(hooks),
        parameters,
        [p is not None and p.requires_grad for p in parameters],
    )


def _instance_forward(attributes: dict[str, Any]) -> Any:
    forward = attributes.get("forward")
    return None if forward.__class__ is ForwardPatch else forward


def _hooks(attributes: dict[str, Any]) -> list[Any]:
    return [
        *attributes["_forward_pre_hooks"].values(),
        *attributes["_forward_hooks"].values(),
        *attributes["_backward_pre_hooks"].values(),
        *attributes["_backward_hooks"].values(),
    ]


def _user_hooks(hooks: list[Any]) -> list[Any]:
    """Returns the hooks that an engine has not registered."""
    return [hook for hook in hooks if hook.__class__ is not ModuleHook]


def _global_hooks() -> list[Any]:
    return [hook for hooks in GLOBAL_HOOKS for hook in hooks.values()]
