"""Compares the parameters of the optimizers with the trainable ones of the module."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from operator import is_
from typing import Any

from torch import nn
from torch.optim import Optimizer

from dpsgd_explorer.errors import PrivacyError


class OptimizerCheck:
    """Rejects optimizers that update other parameters than the engine's.

    The optimizers may contain frozen parameters of the module, as in
    ``SGD(model.parameters())``.  Torch's optimizers skip a parameter without a
    gradient, also with momentum and weight decay.

    Args:
        optimizers: The optimizers.  Each trainable parameter of the module must be in
            one of them, once.
        module: The model.

    Attributes:
        optimizers: The optimizers.

    Raises:
        PrivacyError: the optimizers contain a parameter that is not in the module, lack
            a trainable parameter, or contain one twice.
    """

    def __init__(self, optimizers: Sequence[Optimizer], module: nn.Module) -> None:
        self.optimizers = optimizers
        self._module = module
        self._inspect()

    def check(self) -> None:
        """Raises PrivacyError if the optimizers now update other parameters."""
        groups = self._param_groups()
        # This runs at every step.  It compares identities, and looks up names, which
        # takes longer, only after a change.
        if not _same(groups, self._groups):
            self._inspect()
        elif self._frozen:
            self._check_frozen()

    def _param_groups(self) -> list[dict[str, Any]]:
        if len(self.optimizers) == 1:
            return self.optimizers[0].param_groups
        optimizers = self.optimizers
        return [group for optimizer in optimizers for group in optimizer.param_groups]

    def _inspect(self) -> None:
        groups = self._param_groups()
        stepped = {id(p): p for group in groups for p in group["params"]}
        names = {id(p): name for name, p in self._module.named_parameters()}
        unknown = stepped.keys() - names.keys()
        if unknown:
            raise PrivacyError(
                f"the optimizer trains {len(unknown)} parameters that are not "
                "trainable parameters of the engine's module; such parameters would "
                "change without noise or not at all. Pass it [p for p in "
                "module.parameters() if p.requires_grad]."
            )
        trained = {key for key, p in _by_id(self._module).items() if p.requires_grad}
        counts = Counter(id(p) for group in groups for p in group["params"])
        shared = [names[key] for key in trained if counts[key] > 1]
        if shared:
            raise PrivacyError(
                "each parameter must be in one optimizer, once, got "
                f"{', '.join(sorted(shared))} twice, which would change them twice per "
                "step. Split the parameters among the optimizers."
            )
        left_out = [names[key] for key in names if key in trained - stepped.keys()]
        if left_out:
            raise PrivacyError(
                f"the optimizer does not train {', '.join(left_out)}, which would get "
                "clipping and noise for nothing. Freeze them with "
                "requires_grad_(False), or pass every optimizer of the module to "
                "attach()."
            )
        self._frozen = [p for key, p in stepped.items() if key not in trained]
        self._check_frozen()
        self._groups = [list(group["params"]) for group in groups]

    def _check_frozen(self) -> None:
        moved = [p for p in self._frozen if p.grad is not None]
        if not moved:
            return
        named = self._module.named_parameters()
        name = next(name for name, p in named if p is moved[0])
        raise PrivacyError(
            f"the optimizer would change {name} without noise: it is frozen, but has a "
            "gradient. Set its gradient to None, or leave it out of the optimizer."
        )


def _by_id(module: nn.Module) -> dict[int, nn.Parameter]:
    return {id(p): p for p in module.parameters()}


def _same(groups: list[dict[str, Any]], old_groups: list[list[nn.Parameter]]) -> bool:
    """Returns True if the groups contain the tensors of the old groups, in order."""
    if len(groups) != len(old_groups):
        return False
    for group, old in zip(groups, old_groups, strict=True):
        present = group["params"]
        if len(present) != len(old) or not all(map(is_, present, old)):
            return False
    return True
