"""A loss function whose graphs are remembered while the safety check measures it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from dpsgd_explorer.dp.checks.loss.graph import form_of
from dpsgd_explorer.errors import ConfigError


class MeasuredLoss:
    """Calls a loss function and stores the form of each loss.

    Args:
        loss_fn: ``loss_fn(outputs, targets)``.

    Attributes:
        forms: Operations of each loss, from its outputs on.
    """

    def __init__(self, loss_fn: Callable[[Any, Any], Tensor]) -> None:
        self._loss_fn = loss_fn
        self.forms: set[str] = set()

    def __call__(self, outputs: Any, targets: Any) -> Tensor:
        """Return the loss.

        Raises:
            ConfigError: the loss function returned something else than a tensor.
        """
        loss: object = self._loss_fn(outputs, targets)
        if not isinstance(loss, Tensor):
            raise ConfigError(
                "loss_fn",
                "loss_fn must return a tensor of one number, got "
                f"{type(loss).__name__}.",
            )
        if loss.grad_fn is not None:
            form = form_of([(loss.grad_fn, loss.output_nr)])
            self.forms |= {form} - {""}
        return loss
