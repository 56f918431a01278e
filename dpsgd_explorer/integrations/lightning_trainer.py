"""What a private run needs from a trainer of Lightning: data, module and length."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Never

from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.strategies import SingleDeviceStrategy
from torch import nn
from torch.utils.data import DataLoader, RandomSampler, SequentialSampler

from dpsgd_explorer.dp.sampling.records import fetcher
from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.integrations.planned_run import reject_arguments

#: Precisions that hold gradients in float16.
FLOAT16_PRECISIONS = ("16-mixed", "16-true", "transformer-engine-float16")


def check_trainer(trainer: Any) -> None:
    """Raises ConfigError for arguments of the trainer that DP-SGD cannot have."""
    rejected = {
        "accumulate_grad_batches": (
            trainer.accumulate_grad_batches > 1,
            "a batch of the loader is one step; give DataLoader the whole batch_size",
        ),
        "gradient_clip_val": (
            bool(trainer.gradient_clip_val),
            "max_grad_norm of DPCallback bounds the gradient of each record",
        ),
        "precision": (
            trainer.precision in FLOAT16_PRECISIONS,
            "gradients of float16 overflow at the scale of single samples; use "
            '"bf16-mixed"',
        ),
        "strategy": (
            not isinstance(trainer.strategy, SingleDeviceStrategy),
            "several devices are not supported here; use devices=1, or "
            "dp.PrivacyEngine(group=...) in a loop of your own",
        ),
        "overfit_batches": (
            bool(trainer.overfit_batches),
            "each batch is a new draw from all records",
        ),
        "reload_dataloaders_every_n_epochs": (
            bool(trainer.reload_dataloaders_every_n_epochs),
            "the plan is for one data set",
        ),
    }
    reject_arguments(rejected)


def given_loader(trainer: Trainer) -> tuple[DataLoader[Any], int]:
    """Returns the loader of the training, and the number of its records.

    Raises:
        ConfigError: it is no DataLoader whose batches the engine can draw in its place.
    """
    return _checked(trainer.train_dataloader)


def count_users(trainer: Trainer, users: int) -> Callable[[], None]:
    """Makes the trainer count batches of users, so that an epoch has each user once.

    The trainer reads its loader once, and derives the length of an epoch from it,
    also for ``trainer.estimated_stepping_batches``.

    Args:
        trainer: The trainer, before it reads its loader.
        users: Number of users.

    Returns:
        A function that restores the trainer.
    """
    source: Any = trainer.fit_loop._data_source
    given = source.dataloader
    source.dataloader = lambda: _UserBatches(given(), users)
    return lambda: vars(source).pop("dataloader")


class _UserBatches(DataLoader[int]):
    """Replaces the loader of records, with the number of batches that users need."""

    def __init__(self, loader: Any, users: int) -> None:
        self.of_records, _ = _checked(loader)
        size, drop_last = self.of_records.batch_size, self.of_records.drop_last
        indices: Any = range(users)
        super().__init__(indices, batch_size=size, drop_last=drop_last)


def _checked(loader: Any) -> tuple[DataLoader[Any], int]:
    if isinstance(loader, _UserBatches):
        loader = loader.of_records
    if not isinstance(loader, DataLoader):
        _reject_loader(f"one DataLoader, got {type(loader).__name__}")
    if loader.batch_size is None:
        _reject_loader("a DataLoader with batch_size, got one with batches of its own")
    _, sample_size = fetcher(loader.dataset, loader.collate_fn)
    sampler = loader.sampler
    is_uniform = type(sampler) in (RandomSampler, SequentialSampler)
    if not is_uniform or getattr(sampler, "replacement", False):
        _reject_loader(
            "a DataLoader without a sampler, since each record is drawn with the same "
            f"probability, got {type(sampler).__name__}"
        )
    return loader, sample_size


def _reject_loader(rule: str) -> Never:
    raise ConfigError("train_dataloaders", f"train_dataloaders must be {rule}.")


def trained_module(pl_module: LightningModule, name: str | None) -> nn.Module:
    """Returns the module that ``training_step`` calls.

    Raises:
        ConfigError: there is no submodule of that name, or several come into question.
    """
    children = dict(pl_module.named_children())
    if name is not None:
        modules: dict[str, nn.Module] = dict(pl_module.named_modules())
        if name not in modules:
            raise ConfigError(
                "module",
                f"module must be the name of a submodule, such as "
                f"{', '.join(children)}, got {name!r}.",
            )
        return modules[name]
    if type(pl_module).forward is not LightningModule.forward:
        return pl_module
    trained = [
        child
        for child in children.values()
        if any(parameter.requires_grad for parameter in child.parameters())
    ]
    if len(trained) != 1:
        raise ConfigError(
            "module",
            f"the LightningModule must define forward, which training_step calls as "
            f"self(x), or have one submodule with trained parameters, got "
            f"{len(trained)} submodules and no forward.",
        )
    return trained[0]


def steps_of(trainer: Trainer, pl_module: LightningModule, *, resumes: bool) -> int:
    """Returns the number of batches from the start of the run to its end.

    Args:
        trainer: The trainer.
        pl_module: The trained module.
        resumes: If True, the run has begun before a checkpoint, at batch 0.

    Raises:
        ConfigError: the trainer has no end.
    """
    limits = []
    epochs, steps = trainer.max_epochs, trainer.max_steps
    if epochs is not None and epochs >= 0:
        begun = 0 if resumes else trainer.current_epoch
        limits.append((epochs - begun) * int(trainer.num_training_batches))
    if steps is not None and steps >= 0:
        begun = 0 if resumes else trainer.global_step
        is_manual = not pl_module.automatic_optimization
        # In manual optimization the trainer counts the steps of each optimizer.
        per_batch = max(1, len(trainer.optimizers)) if is_manual else 1
        limits.append(-(-(steps - begun) // per_batch))
    if not limits:
        raise ConfigError(
            "max_epochs",
            "max_epochs or max_steps must be set, since the noise is chosen for the "
            "number of steps, got -1 for both.",
        )
    return min(limits)
