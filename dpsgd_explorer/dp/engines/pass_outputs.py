"""The outputs of a forward pass, checked for foreign hooks before backward."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from dpsgd_explorer.dp.modules.pytree import tensors_of
from dpsgd_explorer.errors import PrivacyError


class PassOutputs:
    """The tensors that the last pass returned, each with its number of hooks.

    A hook on an output sees the gradients [B, ...] of all samples and may mix them
    before any per-sample gradient is computed.  A hook inside the module was there when
    the safety check ran; one registered after the pass was not.
    """

    def __init__(self) -> None:
        self._tensors: list[tuple[Tensor, int]] = []

    def remember(self, output: Any) -> None:
        """Store the tensors of an output; the engine's own hooks are on it already."""
        self._tensors = [(leaf, _hook_count(leaf)) for leaf in tensors_of(output)]

    def check(self) -> None:
        """Raise PrivacyError if an output has got a hook since ``remember``."""
        tensors, self._tensors = self._tensors, []
        for leaf, count in tensors:
            if _hook_count(leaf) != count:
                raise PrivacyError(
                    "a hook was registered on an output of the module after the "
                    "forward pass; it may mix the samples' gradients, and the safety "
                    "check has not seen it. Register it inside the module's forward, "
                    "or remove it."
                )


def _hook_count(leaf: Tensor) -> int:
    return len(leaf._backward_hooks or ())
