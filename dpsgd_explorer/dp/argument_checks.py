"""Checks of a PrivacyEngine's arguments that no other class takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import nn

from dpsgd_explorer.dp.options import ENGINES
from dpsgd_explorer.dp.plan_arguments import MAX_RECORDS
from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.validation import whole


def check_example(example_inputs: object, loss_fn: object) -> None:
    """Raise ConfigError unless these are a pair, and a function that is its loss."""
    if loss_fn is not None and (not callable(loss_fn) or isinstance(loss_fn, type)):
        remedy = (
            f"Pass an instance, loss_fn={loss_fn.__name__}()."
            if isinstance(loss_fn, type)
            else "Pass for example torch.nn.functional.mse_loss."
        )
        raise ConfigError(
            "loss_fn",
            "loss_fn must be a function of outputs and targets, got "
            f"{loss_fn!r:.100}. {remedy}",
        )
    if not isinstance(example_inputs, tuple | list) or len(example_inputs) != 2:
        kind = type(example_inputs).__name__
        if isinstance(example_inputs, tuple | list):
            kind += f" of {len(example_inputs)}"
        raise ConfigError(
            "example_inputs",
            "example_inputs must be a pair (inputs, targets), given together with "
            f"loss_fn, got {kind}.",
        )
    if loss_fn is None:
        raise ConfigError(
            "loss_fn",
            "loss_fn must be a function of outputs and targets, given together with "
            "example_inputs, got None.",
        )


def check_after(after: object, kind: type) -> None:
    """Raise ConfigError unless the earlier phase is an engine, or none."""
    if after is not None and not isinstance(after, kind):
        raise ConfigError(
            "after", f"after must be the engine of an earlier phase, got {after!r}."
        )


def check_parameter_lists(
    module: nn.Module,
    named_params: Sequence[tuple[str, nn.Parameter]] | None,
    origin_params: Sequence[str] | None,
) -> None:
    """Check what users of FastDP pass to choose parameters.

    ``named_params`` must be all trainable parameters.  ``origin_params`` must be parts
    of parameter names; it saves nothing here, since autograd is never asked for a
    parameter's gradient.

    Raises:
        ConfigError: naming the argument at fault.
    """
    names = {id(p): name for name, p in module.named_parameters()}
    trainable = {id(p): names[id(p)] for p in module.parameters() if p.requires_grad}
    if named_params is not None:
        _check_same(trainable, {id(p): name for name, p in named_params})
    for origin in origin_params or ():
        if not any(origin in name for name in names.values()):
            raise ConfigError(
                "origin_params",
                f"origin_params must contain parts of parameter names, got {origin!r}. "
                f"The model has {', '.join(names.values())}.",
            )


def _check_same(trainable: Mapping[int, str], listed: Mapping[int, str]) -> None:
    odd = [name for key, name in trainable.items() if key not in listed]
    odd += [name for key, name in listed.items() if key not in trainable]
    if odd:
        raise ConfigError(
            "named_params",
            "named_params must list all trainable parameters of the module and no "
            f"others; the differences are {', '.join(odd)}. Freeze parameters that you "
            "do not want to train with requires_grad_(False).",
        )


def check_grad_scaler(scaler: object, engine: str) -> None:
    """Raise ConfigError if the engine would not apply the scaler of losses."""
    if scaler is not None and not ENGINES[engine].releases_in_backward:
        raise ConfigError(
            "grad_scaler",
            "grad_scaler must be given with engine='extending', because only that "
            f"engine has gradients before the step, got engine={engine!r}.",
        )


def physical_size(size: int | None, sampling: str) -> int | None:
    """Return the size of parts as a plain int, None if batches are not split.

    Raises:
        ConfigError: batches cannot be split into parts of this size.
    """
    if size is None:
        return None
    size = whole("physical_batch_size", size, 1, MAX_RECORDS)
    if sampling != "poisson":
        raise ConfigError(
            "physical_batch_size",
            f"physical_batch_size must not be given with sampling={sampling!r}, got "
            f"{size}: it splits the batches of poisson_loader. Split the batch and "
            "call backward once for each part, then step once.",
        )
    return size


def check_module(module: object) -> None:
    """Raise ConfigError unless this is a module, as its class and None are not."""
    if not isinstance(module, nn.Module):
        is_class = isinstance(module, type)
        kind = f"the class {module.__name__}" if is_class else type(module).__name__  # type: ignore[attr-defined]
        remedy = " Create an instance of it first." if is_class else ""
        raise ConfigError(
            "module", f"module must be a torch.nn.Module, got {kind}.{remedy}"
        )
