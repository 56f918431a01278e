"""Engines of this process that have released gradients of a parameter.

They show that an engine's epsilon leaves out steps of another engine.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, MutableMapping, Sequence

from torch import Tensor, nn
from torch.utils.weak import WeakTensorKeyDictionary

from dpsgd_explorer.dp.ledger.ledger import Ledger
from dpsgd_explorer.privacy_warning import warn

#: {parameter: names of the ledgers that count its releases}.
_WRITERS: MutableMapping[Tensor, set[str]] = WeakTensorKeyDictionary()


def record(parameters: Iterable[Tensor], writer: str) -> None:
    """Records that the ledger of the given writer counts releases of the parameters."""
    for parameter in parameters:
        _WRITERS[parameter] = {*_WRITERS.get(parameter, ()), writer}


def warn_of_uncounted(
    module: nn.Module, writers: Collection[str], dropped: Sequence[Ledger] = ()
) -> None:
    """Warns of trainable parameters that engines outside the caller's epsilon trained.

    Args:
        module: The model.
        writers: Names of the ledgers that the caller counts.
        dropped: Ledgers of engines that no longer exist and cannot be counted.

    Warns:
        PrivacyWarning: at the innermost line outside of this package.
    """
    lost = {
        ledger.writer: ledger.steps
        for ledger in dropped
        if ledger.writer not in writers
    }
    if any(lost.values()):
        warn(
            f"this engine's epsilon leaves out {sum(lost.values())} steps of an "
            "earlier engine that no longer exists, so it is too small if both engines "
            "use the same records. To start over, create the model again; otherwise "
            "keep the earlier engine, and pass it as after=."
        )
    writers = {*writers, *lost}
    names = [
        name
        for name, p in module.named_parameters()
        if p.requires_grad and not _WRITERS.get(p, set()) <= writers
    ]
    if names:
        warn(
            "this engine's epsilon leaves out the steps of another engine that trained "
            f"{', '.join(names[:3])}{' and others' if len(names) > 3 else ''}. If that "
            "engine used the same records, epsilon is too small: pass that engine as "
            "after=."
        )
