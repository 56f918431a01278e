"""Checks that users register no hook on the outputs of a pass before backward."""

from __future__ import annotations

from typing import Any, cast

from torch import Tensor

from dpsgd_explorer.dp.modules.pytree import tensors_of
from dpsgd_explorer.errors import PrivacyError


class PassOutputs:
    """The hooks of the tensors that the last pass returned.

    A hook on an output sees the gradients [B, ...] of all samples and may mix them
    before any per-sample gradient is computed.  The safety check has tested hooks
    inside the module, but not a hook that is registered after the pass.

    The object stores hooks and not outputs.  An output refers to its graph, and the
    graph to the engine, through nodes that Python's garbage collector does not see: an
    engine that is discarded before a backward would never be freed.
    """

    def __init__(self) -> None:
        self._hooks: list[tuple[dict[int, Any], int]] = []

    def remember(self, output: Any) -> None:
        """Stores the hooks of an output after the engine has registered its hooks."""
        self._hooks = []
        for leaf in tensors_of(output):
            if leaf.requires_grad:
                if leaf._backward_hooks is None:
                    # The first hook creates the table that later hooks are added to.
                    leaf.register_hook(_keep).remove()  # type: ignore[no-untyped-call]
                hooks = cast("dict[int, Any]", leaf._backward_hooks)
                self._hooks.append((hooks, len(hooks)))

    def check(self) -> None:
        """Raises PrivacyError if an output has a new hook since ``remember``."""
        remembered, self._hooks = self._hooks, []
        for hooks, count in remembered:
            if len(hooks) != count:
                raise PrivacyError(
                    "a hook was registered on an output of the module after the "
                    "forward pass; it may mix the samples' gradients, and the safety "
                    "check has not tested it. Register it inside the module's forward, "
                    "or remove it."
                )


def _keep(gradient: Tensor) -> None:
    """Leaves the gradient unchanged."""
