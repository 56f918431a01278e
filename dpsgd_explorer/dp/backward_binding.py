"""Keeps the gradients of the parameters for the engine that sets them in backward."""

from __future__ import annotations

from collections.abc import Iterable

from torch import Tensor, nn

from dpsgd_explorer.errors import PrivacyError


class BackwardBinding:
    """Refuses every gradient that autograd itself would put into ``param.grad``.

    The optimizer is not watched here, so what it finds there must be private at all
    times.

    Args:
        parameters: All that are trained.
    """

    def __init__(self, parameters: Iterable[nn.Parameter]) -> None:
        self._handles = [
            parameter.register_post_accumulate_grad_hook(_refuse)  # type: ignore[no-untyped-call]
            for parameter in parameters
        ]

    def release(self) -> None:
        """Leave the parameters as they were."""
        for handle in self._handles:
            handle.remove()


def _refuse(parameter: Tensor) -> None:
    parameter.grad = None
    raise PrivacyError(
        "a parameter has a gradient that did not go through the engine, as from a "
        "penalty in the loss or a layer called on its own. Use the optimizer's "
        "weight_decay, and call the whole module."
    )
