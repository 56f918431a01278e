"""What a pass returned, up to its backward."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from dpsgd_explorer.dp.modules.pytree import tensors_of
from dpsgd_explorer.errors import PrivacyError


class Outputs:
    """The tensors of the last pass, and how many hooks each had when it ended."""

    def __init__(self) -> None:
        self._tensors: list[tuple[Tensor, int]] = []

    def watch(self, output: Any) -> None:
        """Remember what a pass returns; all hooks of ours are on it already."""
        self._tensors = [(leaf, _hooks(leaf)) for leaf in tensors_of(output)]

    def check(self) -> None:
        """Raise PrivacyError if somebody has put a hook on an output since."""
        tensors, self._tensors = self._tensors, []
        for leaf, hooks in tensors:
            if _hooks(leaf) != hooks:
                raise PrivacyError(
                    "a hook was registered on an output of the module after the "
                    "forward pass; it may mix the samples' gradients, and the safety "
                    "check has not seen it. Register it inside the module's forward, "
                    "or remove it."
                )


def _hooks(leaf: Tensor) -> int:
    return len(leaf._backward_hooks or ())
