"""Copies, compares and restores the stored values of a module.

A model is released with its parameters (also frozen parameters), its buffers and its
extra state.  A forward pass must not write a statistic of the samples into these
values, since such a statistic would get no noise.  Plain attributes are not compared,
although ``torch.save(model)`` releases them.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_flatten

from dpsgd_explorer.dp.distributed.sharding import local, reshard
from dpsgd_explorer.errors import UnsupportedModuleError

#: {name: copy of a stored value} of the values that a forward pass has changed.
Changes = dict[str, Any]
#: Suffix of the keys of extra state in torch's state dicts.
EXTRA_STATE = "_extra_state"
_REMOVED = object()  # the value of a name that was removed


class ModuleState:
    """A copy of the parameters, the buffers and the whole ``state_dict()``.

    Args:
        module: The model; its values are copied now.
    """

    def __init__(self, module: nn.Module) -> None:
        self._module = module
        self._stored = _stored(module)
        self._copies = {name: _copied(value) for name, value in self._stored.items()}
        self._kinds = {submodule: type(submodule) for submodule in module.modules()}
        self._trained = {p: p.requires_grad for p in module.parameters()}
        self._tables: list[tuple[dict[str, Any], dict[str, Any]]] = [
            (table, dict(table))
            for submodule in self._kinds
            for table in (
                submodule._parameters,
                submodule._buffers,
                submodule._modules,
            )
        ]

    def changes(self) -> Changes:
        """Returns {name: copy of the present value} of all values that have changed."""
        now = _stored(self._module)
        changed = {
            name: _copied(value)
            for name, value in now.items()
            if name not in self._copies or not _same(value, self._copies[name])
        }
        return changed | dict.fromkeys(self._copies.keys() - now.keys(), _REMOVED)

    def restore(self) -> None:
        """Restores all values that have changed.

        A forward that fails may leave modules in a state between two: with another
        parametrization, for example, which changes their class.
        """
        changed = self.changes()
        for table, entries in self._tables if changed else ():
            table.clear()
            table.update(entries)
        if changed:
            for submodule, kind in self._kinds.items():
                submodule.__class__ = kind
            for parameter, is_trained in self._trained.items():
                parameter.requires_grad = is_trained
        for name in changed.keys() & self._copies.keys():
            self._restore_value(name, self._stored[name], self._copies[name])

    def _restore_value(self, name: str, stored: Any, copy: Any) -> None:
        if isinstance(stored, Tensor):
            if stored.shape == copy.shape:
                with torch.no_grad():
                    stored.copy_(copy)
            else:
                stored.data = copy.clone()  # the forward pass resized it in place
        elif name.endswith(EXTRA_STATE):
            owner, _, _ = name.rpartition(".")
            self._module.get_submodule(owner).set_extra_state(deepcopy(copy))


@contextmanager
def restored(module: nn.Module) -> Iterator[ModuleState]:
    """Yields a copy of the module's stored values, and restores the module at the end.

    Stored values, training modes and torch's random generators are restored, also after
    an error.
    """
    modes = {submodule: submodule.training for submodule in module.modules()}
    state = ModuleState(module)
    devices = sorted({p.device.index for p in module.parameters() if p.is_cuda})
    try:
        with torch.random.fork_rng(devices=devices):
            yield state
    finally:
        for submodule, mode in modes.items():
            submodule.training = mode
        state.restore()


def check_equal_changes(
    module: nn.Module, first: Changes, second: Changes, *, sizes: bool = False
) -> None:
    """Raises UnsupportedModuleError if two passes changed stored values differently.

    Args:
        module: The model.
        first: Changes of a pass.
        second: Changes of a pass on other samples.
        sizes: If True, the second pass had another number of samples instead.
    """
    for name in sorted(first.keys() | second.keys()):
        value, other_value = first.get(name, _REMOVED), second.get(name, _REMOVED)
        if value is not other_value and not _same(value, other_value):
            raise UnsupportedModuleError(_message(module, name, sizes))


def _message(module: nn.Module, name: str, sizes: bool) -> str:
    owner, _, local = name.rpartition(".")
    stored = "the number of samples" if sizes else "a statistic of the samples"
    if local == EXTRA_STATE:
        where = "its extra state, which is in the state dict"
        remedy = "Leave it out of get_extra_state"
    elif name in dict(module.named_parameters(remove_duplicate=False)):
        where = f"its parameter {name!r}"
        remedy = (
            "Do not write to a parameter in forward: let the optimizer train it, or "
            "fit it on public data beforehand"
        )
    elif sizes:
        where = f"its buffer {name!r}"
        remedy = "Count forward passes instead of samples, or remove the count"
    else:
        where = f"its buffer {name!r}"
        remedy = (
            "Switch the statistic off or replace the module (GroupNorm and LayerNorm "
            "store no statistic)"
        )
    module_name = owner or "the module"
    return f"{module_name} stores {stored} in {where}, without noise. {remedy}."


def _stored(module: nn.Module) -> dict[str, Any]:
    """Returns {name: value} of all stored values, with non-persistent buffers.

    The value of a sharded parameter is the shard of this rank.
    """
    reshard(module)
    stored = {
        **module.state_dict(keep_vars=True),
        **dict(module.named_parameters(remove_duplicate=False)),
        **dict(module.named_buffers(remove_duplicate=False)),
    }
    return {
        name: local(v) if isinstance(v, Tensor) else v for name, v in stored.items()
    }


def _copied(value: Any) -> Any:
    return value.detach().clone() if isinstance(value, Tensor) else deepcopy(value)


def _same(first: Any, second: Any) -> bool:
    """Returns True if two values are equal to the last bit; NaN equals NaN."""
    if isinstance(first, Tensor) and isinstance(second, Tensor):
        return _same_tensor(first, second)
    if first is _REMOVED or second is _REMOVED:
        return False
    leaves, tree = tree_flatten(first)
    others, other_tree = tree_flatten(second)
    if tree != other_tree:
        return False
    if len(leaves) == 1 and leaves[0] is first:
        return _same_object(first, second)
    return all(map(_same, leaves, others))


def _same_object(first: Any, second: Any) -> bool:
    try:
        if first is second or bool(first == second):
            return True
    except (RuntimeError, TypeError, ValueError):  # for example arrays
        pass
    return pickle.dumps(first) == pickle.dumps(second)


def _same_tensor(first: Tensor, second: Tensor) -> bool:
    if first.shape != second.shape or first.dtype != second.dtype:
        return False
    if torch.equal(first, second):
        return True
    both_nan = (first != first) & (second != second)
    return bool(((first == second) | both_nan).all())
