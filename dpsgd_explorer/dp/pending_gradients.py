"""Stand-ins for gradients that are not private yet, in ``param.grad``.

Between backward and ``step()`` the clipped sum is inside the engine, without noise.  If
``param.grad`` were None there, code that runs in between, as ``clip_grad_norm_`` in
most trainers, would find no gradients and do nothing, without a word.  A stand-in has
the shape of the gradient and no entries; each operation on it raises an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from operator import is_
from typing import Any, NoReturn

import torch
from torch import Tensor, nn

from dpsgd_explorer.dp.distributed.sharding import as_shard_of, is_shard, local
from dpsgd_explorer.dp.optimizer_hooks import FOREIGN_GRADIENT
from dpsgd_explorer.errors import PrivacyError

MESSAGE = (
    "param.grad must not be used between backward and optimizer.step(): it becomes "
    "private in step(), which adds up the clipped gradients and adds noise. Switch "
    "clipping by the trainer (clip_grad_norm_) off, because max_grad_norm of the "
    "engine bounds every sample (transformers: max_grad_norm=0, Lightning: "
    "gradient_clip_val=None). To use the noisy gradient, read param.grad after step(), "
    "change it in a step pre-hook of the optimizer that is registered after attach(), "
    'or pass engine="extending", whose param.grad is private when backward ends. A '
    "GradScaler needs that engine too, and grad_scaler=scaler."
)


class PendingGradient(Tensor):
    """A tensor without memory that raises PrivacyError wherever it is used."""

    @staticmethod
    def __new__(cls, parameter: Tensor) -> PendingGradient:
        """Return a stand-in of the parameter's shape, type and device."""
        return torch.Tensor._make_wrapper_subclass(
            cls, parameter.shape, dtype=parameter.dtype, device=parameter.device
        )

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> NoReturn:
        """Refuse every operation."""
        raise PrivacyError(MESSAGE)

    def __repr__(self, **_: Any) -> str:  # type: ignore[override]
        return f"PendingGradient(shape={list(self.shape)}, private after step())"

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return repr(self)

    def _refuse(self, *_: Any) -> NoReturn:
        raise PrivacyError(MESSAGE)

    # Torch has errors of its own for these, which do not say why.
    numpy = tolist = item = _refuse  # type: ignore[assignment]


class PendingGradients:
    """The stand-ins of a logical batch.

    Args:
        parameters: All trained parameters.

    Attributes:
        are_placed: If True, they were put into ``param.grad`` and not taken out again.
    """

    def __init__(self, parameters: Iterable[nn.Parameter]) -> None:
        self._parameters = list(parameters)
        self._stand_ins = [_stand_in(p) for p in self._parameters]
        self.are_placed = False

    def place(self) -> None:
        """Put a stand-in wherever there is no gradient."""
        if self.are_placed or not self._parameters:
            return
        self.are_placed = True
        try:
            self._place()
        except RuntimeError:  # the parameters have another type or device meanwhile
            self._stand_ins = [_stand_in(p) for p in self._parameters]
            self._place()

    def _place(self) -> None:
        for parameter, stand_in in zip(self._parameters, self._stand_ins, strict=True):
            if parameter.grad is None:
                parameter.grad = stand_in

    def take_out(self) -> None:
        """Leave None in the place of each stand-in."""
        if not self.are_placed:
            return
        self.are_placed = False
        for parameter, stand_in in zip(self._parameters, self._stand_ins, strict=True):
            if parameter.grad is stand_in:
                parameter.grad = None

    def forget(self) -> None:
        """Record that gradients have taken the place of all stand-ins."""
        self.are_placed = False

    def are_intact(self) -> bool:
        """Return True if all stand-ins are where they were put, or none was put."""
        gradients = [parameter.grad for parameter in self._parameters]
        return not self.are_placed or all(map(is_, gradients, self._stand_ins))

    def dropped(self) -> int:
        """Return the number of parameters without a stand-in or a gradient."""
        return sum(parameter.grad is None for parameter in self._parameters)


def _stand_in(parameter: nn.Parameter) -> Tensor:
    stand_in = PendingGradient(local(parameter))
    return as_shard_of(parameter, stand_in) if is_shard(parameter) else stand_in


class WaitingGradients:
    """Private gradients that an optimizer has not used yet.

    Args:
        gradients: Of its parameters.
    """

    def __init__(self, gradients: Mapping[nn.Parameter, Tensor]) -> None:
        self.gradients = gradients
        self._pending = PendingGradients(gradients)
        self._pending.place()

    def take(self) -> bool:
        """Take the stand-ins out; return False if zero_grad had dropped them.

        Raises:
            PrivacyError: a gradient came that did not go through the engine.
        """
        is_intact, dropped = self._pending.are_intact(), self._pending.dropped()
        self.discard()
        if not is_intact and not dropped:
            raise PrivacyError(FOREIGN_GRADIENT)
        return is_intact

    def discard(self) -> None:
        """Take the stand-ins out."""
        self._pending.take_out()
