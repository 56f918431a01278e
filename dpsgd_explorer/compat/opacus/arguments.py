"""Arguments of Opacus's ``make_private`` and what they mean here."""

from __future__ import annotations

from inspect import signature
from typing import Any, TypedDict

import torch
from torch.utils.data import DataLoader, RandomSampler, SequentialSampler

from dpsgd_explorer import dp
from dpsgd_explorer.dp.sampling.records import fetcher
from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.validation import one_of

#: Options of the engine by Opacus's ``grad_sample_mode``.
GRAD_SAMPLE_MODES: dict[str, dict[str, Any]] = {
    "hooks": {"engine": "hooks"},
    "ew": {"engine": "hooks"},
    "functorch": {"engine": "vmap"},
    "ghost": {"engine": "hooks", "clipping_mode": "ghost"},
}
#: Options of the engine by Opacus's ``clipping``.
CLIPPING: dict[str, dict[str, Any]] = {
    "flat": {"clipping_fn": "Abadi", "clipping_style": "all-layer"},
    "automatic": {"clipping_fn": "automatic", "clipping_style": "all-layer"},
    "per_layer": {"clipping_fn": "Abadi", "clipping_style": "param-wise"},
    "adaptive": {"clipping_fn": "Abadi", "clipping_style": "all-layer"},
}
#: Arguments of ``dp.AdaptiveClipping`` by their names in Opacus.
ADAPTIVE = {
    "target_unclipped_quantile": "quantile",
    "clipbound_learning_rate": "learning_rate",
}


class Options(TypedDict, total=False):
    """Further arguments of ``make_private`` and ``make_private_with_epsilon``.

    Attributes:
        criterion: The loss, which ``grad_sample_mode="ghost"`` returns unchanged.
        batch_first: Must be True.
        loss_reduction: "mean" (default) or "sum".
        poisson_sampling: If False, the loader is returned as it is, and ``get_epsilon``
            raises an error.
        clipping: "flat" (default), "automatic", "per_layer" or "adaptive".
        noise_generator: Must be None.
        grad_sample_mode: "hooks" (default), "ew", "functorch" or "ghost".
        target_unclipped_quantile: With ``clipping="adaptive"``, the share of samples
            within the bound that it approaches.
        clipbound_learning_rate: With ``clipping="adaptive"``, the step size of the
            bound's logarithm.
    """

    criterion: Any
    batch_first: bool
    loss_reduction: str
    poisson_sampling: bool
    clipping: str
    noise_generator: torch.Generator | None
    grad_sample_mode: str
    target_unclipped_quantile: float
    clipbound_learning_rate: float


DEFAULTS = Options(
    criterion=None,
    batch_first=True,
    loss_reduction="mean",
    poisson_sampling=True,
    clipping="flat",
    noise_generator=None,
    grad_sample_mode="hooks",
)


def checked_size(data_loader: DataLoader[Any]) -> int:
    """Returns the number of records of a loader.

    Raises:
        ConfigError: Poisson batches cannot replace the batches of the loader.
    """
    if not isinstance(data_loader, DataLoader):
        raise ConfigError(
            "data_loader",
            "data_loader must be a torch.utils.data.DataLoader, got a "
            f"{type(data_loader).__name__}.",
        )
    _, size = fetcher(data_loader.dataset, data_loader.collate_fn)
    if data_loader.batch_size is None:
        raise ConfigError(
            "data_loader",
            "data_loader must have a batch_size, got a batch_sampler, whose batches "
            "would not be Poisson batches. Pass batch_size=.",
        )
    if type(data_loader.sampler) not in (RandomSampler, SequentialSampler):
        raise ConfigError(
            "data_loader",
            "data_loader must not have a sampler of its own: records are drawn by "
            f"Poisson sampling, got a {type(data_loader.sampler).__name__}. Leave "
            "sampler= out; for several processes use dp.PrivacyEngine(..., group=...).",
        )
    return size


def checked(given: Options) -> dict[str, Any]:
    """Returns the options with their defaults.

    Raises:
        ConfigError: an option has no equivalent here.
    """
    options: dict[str, Any] = {**DEFAULTS, **given}
    for name in options.keys() - DEFAULTS.keys() - ADAPTIVE.keys():
        remedy = "has no equivalent here. Leave it out."
        if name in signature(dp.PrivacyEngine).parameters:
            remedy = f"is no argument of Opacus. Use dp.PrivacyEngine(..., {name}=...)."
        raise ConfigError(name, f"{name} {remedy}")
    if not options["batch_first"]:
        raise ConfigError(
            "batch_first",
            "batch_first must be True: the first dimension of each input counts the "
            "samples. Transpose the inputs in the collate function.",
        )
    if options["noise_generator"] is not None:
        raise ConfigError(
            "noise_generator",
            "noise_generator must be None: noise comes from a secure generator. For a "
            'reproducible run use dp.PrivacyEngine(..., noise="seeded", seed=...).',
        )
    one_of("grad_sample_mode", options["grad_sample_mode"], GRAD_SAMPLE_MODES)
    one_of("clipping", options["clipping"], CLIPPING)
    return options


def adaptive_clipping(options: dict[str, Any]) -> dp.AdaptiveClipping | None:
    """Returns the schedule of ``clipping="adaptive"``, or None.

    Raises:
        ConfigError: an argument of adaptive clipping is given without it.
    """
    arguments = {
        here: options[name] for name, here in ADAPTIVE.items() if name in options
    }
    if options["clipping"] == "adaptive":
        return dp.AdaptiveClipping(**arguments)
    for name in options.keys() & ADAPTIVE.keys():
        raise ConfigError(name, f'{name} needs clipping="adaptive".')
    return None
