"""Which engines have released gradients of which parameters, in this process."""

from __future__ import annotations

from collections.abc import Collection, Iterable, MutableMapping

from torch import Tensor, nn
from torch.utils.weak import WeakTensorKeyDictionary

_WRITERS: MutableMapping[Tensor, set[str]] = WeakTensorKeyDictionary()
"""{parameter: names of the ledgers that count its releases}."""


def note(parameters: Iterable[Tensor], writer: str) -> None:
    """Note that the ledger of this name counts releases of these parameters."""
    for parameter in parameters:
        _WRITERS[parameter] = {*_WRITERS.get(parameter, ()), writer}


def spent_elsewhere(module: nn.Module, writers: Collection[str]) -> list[str]:
    """Return the trained parameters of which other ledgers count releases."""
    return [
        name
        for name, p in module.named_parameters()
        if p.requires_grad and not _WRITERS.get(p, set()) <= set(writers)
    ]
