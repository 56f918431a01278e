"""The keywords of FastDP's ``PrivacyEngine`` that ``dp.PrivacyEngine`` does not have.

``dp.PrivacyEngine`` takes FastDP's names of arguments.  This class also takes the other
keywords of FastDP 2.1: it translates a keyword, accepts the values that describe what
this library does, and rejects other values with the remedy.
"""

from __future__ import annotations

import inspect
from numbers import Number
from typing import Any, NamedTuple

from torch import nn

from dpsgd_explorer import dp
from dpsgd_explorer.errors import ConfigError

__all__ = ["PrivacyEngine"]


class _Keyword(NamedTuple):
    """A keyword of FastDP without an equivalent here.

    Attributes:
        accepted: Values that describe what this library does.
        remedy: Action for another value.
    """

    accepted: tuple[Any, ...]
    remedy: str


#: Names of arguments here, by FastDP's keywords.
TRANSLATED = {"num_steps": "steps"}
KEYWORDS = {
    "alphas": _Keyword((None,), "Leave it out: the accountant chooses its orders."),
    "eps_error": _Keyword((None,), "Leave it out: the exact accountant has bounds."),
    "record_snr": _Keyword((False,), "Read engine.diagnostics after a step."),
    "numerical_stability_constant": _Keyword(
        (None, 0.01), "The constant of automatic clipping is 0.01."
    ),
    "num_GPUs": _Keyword((1,), "Pass group=torch.distributed.group.WORLD."),
    "torch_seed_is_fixed": _Keyword(
        (False,), 'Pass noise="seeded" and seed=; such a run is not private.'
    ),
    "accum_grad_per_step": _Keyword((None, 1), "Pass physical_batch_size=."),
}
ARGUMENTS = inspect.signature(dp.PrivacyEngine.__init__).parameters


class PrivacyEngine(dp.PrivacyEngine):
    """``dp.PrivacyEngine`` with all keywords of FastDP.

    Args:
        module: The model, with inputs of shape ``(B, ...)``.
        arguments: Arguments of ``dp.PrivacyEngine`` and keywords of FastDP.

    Raises:
        ConfigError: a keyword has no equivalent here, or an argument is outside its
            domain; ``field`` of the error is its name.

    Source: Bu et al. (2022), arXiv:2210.00038 (FastDP).

    Example:
        >>> from torch import nn
        >>> from dpsgd_explorer.compat.fastdp import PrivacyEngine
        >>> engine = PrivacyEngine(
        ...     nn.Linear(3, 2),
        ...     batch_size=10,
        ...     sample_size=100,
        ...     num_steps=20,
        ...     target_epsilon=3.0,
        ...     num_GPUs=1,
        ... )
        >>> engine.plan.steps
        20
    """

    def __init__(self, module: nn.Module, **arguments: Any) -> None:
        super().__init__(module, **_translated(arguments))


def _translated(arguments: dict[str, Any]) -> dict[str, Any]:
    """Returns the arguments of ``dp.PrivacyEngine``.

    Raises:
        ConfigError: a keyword has no equivalent here, or is given under both names.
    """
    translated: dict[str, Any] = {}
    for name, value in arguments.items():
        if name in KEYWORDS:
            accepted, remedy = KEYWORDS[name]
            if not (isinstance(value, Number | None) and value in accepted):
                allowed = " or ".join(map(repr, accepted))
                raise ConfigError(
                    name, f"{name} must be {allowed}, got {value!r}. {remedy}"
                )
            continue
        here = TRANSLATED.get(name, name)
        if here not in ARGUMENTS:
            raise ConfigError(
                name,
                f"{name} is an argument neither of this library nor of FastDP. Leave "
                "it out; help(dp.PrivacyEngine) lists the arguments.",
            )
        if here in translated:
            raise ConfigError(
                name,
                f"{name} must not be given together with {here}: both mean {here}.",
            )
        translated[here] = value
    return translated
