"""Opacus's ``ModuleValidator``: checks and repairs of layers."""

from __future__ import annotations

import copy
from collections.abc import Callable

from torch import nn

from dpsgd_explorer import dp
from dpsgd_explorer.dp.examination import layer_reasons
from dpsgd_explorer.errors import UnsupportedModuleError


class ModuleValidator:
    """Opacus's ``ModuleValidator``: checks and repairs the layers of a model.

    ``dp.examine`` also checks the loss and measures whether the model mixes samples.

    Example:
        >>> from torch import nn
        >>> from dpsgd_explorer.compat.opacus import ModuleValidator
        >>> model = nn.Sequential(nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8))
        >>> len(ModuleValidator.validate(model))
        1
        >>> fixed = ModuleValidator.fix(model, tell=lambda change: None)
        >>> ModuleValidator.validate(fixed)
        []
    """

    def __repr__(self) -> str:
        return "ModuleValidator()"

    @classmethod
    def validate(
        cls, module: nn.Module, *, strict: bool = False
    ) -> list[UnsupportedModuleError]:
        """Returns an error for each kind of layer that the engine would reject.

        Args:
            module: The model, which is not changed.
            strict: If True, the first error is raised.

        Raises:
            UnsupportedModuleError: with ``strict``, the first error.
        """
        errors = [
            UnsupportedModuleError(reason) for reason in layer_reasons(module, "hooks")
        ]
        if strict and errors:
            raise errors[0]
        return errors

    @classmethod
    def is_valid(cls, module: nn.Module) -> bool:
        """Returns True if ``validate`` returns no error."""
        return not cls.validate(module)

    @classmethod
    def fix(
        cls, module: nn.Module, *, tell: Callable[[str], object] = print
    ) -> nn.Module:
        """Returns a copy with the repairs of ``dp.make_private_ready``.

        Args:
            module: The model, which is not changed.
            tell: Function that receives one line of text per change.
        """
        return dp.make_private_ready(copy.deepcopy(module), tell=tell)

    @classmethod
    def fix_and_validate(cls, module: nn.Module) -> nn.Module:
        """Returns ``fix(module)``.

        Raises:
            UnsupportedModuleError: the repaired copy contains unsupported layers.
        """
        fixed = cls.fix(module)
        cls.validate(fixed, strict=True)
        return fixed
