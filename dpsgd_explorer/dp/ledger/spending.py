"""Engines that have released gradients of a parameter, in this process."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable, MutableMapping

from torch import Tensor, nn
from torch.utils.weak import WeakTensorKeyDictionary

from dpsgd_explorer.errors import PrivacyWarning

#: {parameter: names of the ledgers that count its releases}.
_WRITERS: MutableMapping[Tensor, set[str]] = WeakTensorKeyDictionary()


def note(parameters: Iterable[Tensor], writer: str) -> None:
    """Record that the ledger of this name counts releases of these parameters."""
    for parameter in parameters:
        _WRITERS[parameter] = {*_WRITERS.get(parameter, ()), writer}


def warn_of_uncounted(module: nn.Module, writers: Collection[str]) -> None:
    """Warn of trained parameters of which other ledgers count releases.

    Args:
        module: The model.
        writers: Names of the ledgers that the caller counts.

    Warns:
        PrivacyWarning: attributed to the caller's caller.
    """
    names = [
        name
        for name, p in module.named_parameters()
        if p.requires_grad and not _WRITERS.get(p, set()) <= set(writers)
    ]
    if names:
        warnings.warn(
            f"another engine has released gradients of {', '.join(names[:3])}"
            f"{' and others' if len(names) > 3 else ''}, and this one does not "
            "count what that has spent. If it was on the same records, give it as "
            "after=; epsilon is too small otherwise.",
            PrivacyWarning,
            stacklevel=3,
        )
