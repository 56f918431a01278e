"""Modules and optimizers that engines are attached to, each by one at a time."""

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
    """A session, as those that come after it see it."""

    @property
    def is_dropped(self) -> bool:
        """Whether its engine is gone, so that nobody can call detach()."""

    @property
    def ledger(self) -> Ledger:
        """Record of the steps that were made."""

    def undo(self) -> None:
        """Leave module and optimizers as they were."""


# A strong reference to a holder would keep its modules, and so itself, forever.
_HOLDERS: WeakKeyDictionary[nn.Module | Optimizer, ReferenceType[Holder]] = (
    WeakKeyDictionary()
)


def take(holder: Holder, things: Iterable[nn.Module | Optimizer]) -> None:
    """Record that a session holds modules and optimizers."""
    for each in things:
        _HOLDERS[each] = ref(holder)


def give_back(things: Iterable[nn.Module | Optimizer]) -> None:
    """Record that no session holds them any more."""
    for each in things:
        _HOLDERS.pop(each, None)


def is_held(module: nn.Module) -> bool:
    """Return True if an engine is attached to the module or a module inside."""
    return any(True for _ in _held(module, ()))


def release_dropped(module: nn.Module, optimizers: Sequence[Optimizer]) -> list[Ledger]:
    """Undo what dropped engines are attached to, and return their ledgers.

    A dropped engine stays attached, so that training remains private.  A notebook cell
    that makes an engine drops the former one each time that it is run again.

    Args:
        module: The model of the next engine.
        optimizers: Its optimizers.

    Raises:
        PrivacyError: one is held by an engine that still exists.
    """
    held = list(_held(module, optimizers))
    if not all(holder.is_dropped for _, holder in held):
        del held
        gc.collect()  # an engine in a reference cycle is gone only now
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
    """Yield (name in a message, holder) of all that is held."""
    modules = [(name or "the module", each) for name, each in module.named_modules()]
    for name, each in [*modules, *(("the optimizer", each) for each in optimizers)]:
        reference = _HOLDERS.get(each)
        holder = None if reference is None else reference()
        if holder is not None:
            yield name, holder
