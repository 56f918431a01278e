"""Records which engine is attached to each module and optimizer; at most one can be."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol
from weakref import ReferenceType, WeakKeyDictionary, ref

from torch import nn
from torch.optim import Optimizer

from dpsgd_explorer.dp.ledger.ledger import Ledger
from dpsgd_explorer.errors import PrivacyError


class Holder(Protocol):
    """The methods of a session that later sessions use."""

    @property
    def is_dropped(self) -> bool:
        """True if the engine was garbage collected, so that nobody can detach it."""

    @property
    def ledger(self) -> Ledger:
        """Record of the steps done."""

    def undo(self) -> None:
        """Restores module and optimizers."""


# A weak reference: a holder refers to its modules, so a strong reference would keep
# holder and modules forever.
_HOLDERS: WeakKeyDictionary[nn.Module | Optimizer, ReferenceType[Holder]] = (
    WeakKeyDictionary()
)


def add(holder: Holder, things: Iterable[nn.Module | Optimizer]) -> None:
    """Records that a session holds modules and optimizers."""
    for thing in things:
        _HOLDERS[thing] = ref(holder)


def remove(things: Iterable[nn.Module | Optimizer]) -> None:
    """Records that no session holds these modules and optimizers any more."""
    for thing in things:
        _HOLDERS.pop(thing, None)


def is_attached(module: nn.Module) -> bool:
    """Returns True if an engine is attached to the module or a module inside."""
    return any(True for _ in _held(module, ()))


def detach_dropped(module: nn.Module, optimizers: Sequence[Optimizer]) -> list[Ledger]:
    """Detaches dropped engines from a module and optimizers, and returns their ledgers.

    An engine without references stays attached, so that training remains private.  For
    example, a notebook cell that creates an engine drops the former engine each time
    that the cell runs.

    Args:
        module: The model of the next engine.
        optimizers: The optimizers of the next engine.

    Raises:
        PrivacyError: an engine that still exists is attached to the module, a module
            inside, or an optimizer.
    """
    held = list(_held(module, optimizers))
    if not all(holder.is_dropped for _, holder in held):
        del held
        gc.collect()  # frees an engine that is in a reference cycle
        held = list(_held(module, optimizers))
    for name, holder in held:
        if not holder.is_dropped:
            raise PrivacyError(
                f"{name} is attached to another engine, and can only have one. Call "
                "detach() of that engine first. If you have no variable for that "
                "engine any more (a container, the Out of a notebook or the traceback "
                "of an error still holds it), create model and optimizer again."
            )
    dropped = {id(holder): holder for _, holder in held}.values()
    for holder in dropped:
        holder.undo()
    return [holder.ledger for holder in dropped]


def _held(
    module: nn.Module, optimizers: Sequence[Optimizer]
) -> Iterator[tuple[str, Holder]]:
    """Yields (name, holder) of each module inside and each optimizer that is held."""
    things: list[tuple[str, nn.Module | Optimizer]] = [
        (name or "the module", submodule) for name, submodule in module.named_modules()
    ]
    things += [("the optimizer", optimizer) for optimizer in optimizers]
    for name, thing in things:
        reference = _HOLDERS.get(thing)
        holder = None if reference is None else reference()
        if holder is not None:
            yield name, holder
