"""The outputs of a forward pass, checked for foreign hooks before backward."""

from __future__ import annotations

from typing import Any, cast

from torch import Tensor

from dpsgd_explorer.dp.modules.pytree import tensors_of
from dpsgd_explorer.errors import PrivacyError


class PassOutputs:
    """The hooks of the tensors that the last pass returned.

    A hook on an output sees the gradients [B, ...] of all samples and may mix them
    before any per-sample gradient is computed.  A hook inside the module was there when
    the safety check ran; one registered after the pass was not.

    The hooks are held, not the outputs: from an output its graph is reached, and from
    the graph the engine, through nodes that Python's garbage collector does not see.
    An engine that is dropped before a backward would never be freed.
    """

    def __init__(self) -> None:
        self._hooks: list[tuple[dict[int, Any], int]] = []

    def remember(self, output: Any) -> None:
        """Store the hooks of an output; the engine's own hooks are on it already."""
        tensors = [leaf for leaf in tensors_of(output) if leaf.requires_grad]
        self._hooks = [(hooks, len(hooks)) for hooks in map(_hooks_of, tensors)]

    def check(self) -> None:
        """Raise PrivacyError if an output has got a hook since ``remember``."""
        remembered, self._hooks = self._hooks, []
        for hooks, count in remembered:
            if len(hooks) != count:
                raise PrivacyError(
                    "a hook was registered on an output of the module after the "
                    "forward pass; it may mix the samples' gradients, and the safety "
                    "check has not tested it. Register it inside the module's forward, "
                    "or remove it."
                )


def _hooks_of(leaf: Tensor) -> dict[int, Any]:
    """Return the tensor's hooks, {number: hook}; later ones are added to it."""
    if leaf._backward_hooks is None:  # the first hook creates it
        leaf.register_hook(_keep).remove()  # type: ignore[no-untyped-call]
    return cast("dict[int, Any]", leaf._backward_hooks)


def _keep(gradient: Tensor) -> None:
    """Leave the gradient as it is."""
