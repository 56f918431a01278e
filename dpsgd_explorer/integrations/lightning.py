"""Differential privacy in the ``Trainer`` of Lightning.

``DPCallback`` makes the training of a ``LightningModule`` private.  It needs the extra
``lightning``.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from lightning.fabric.plugins import CheckpointIO
from lightning.pytorch import Callback, LightningModule, Trainer
from torch import Tensor
from torch.utils._pytree import tree_leaves

from dpsgd_explorer import dp
from dpsgd_explorer.dp.sampling.users import Users
from dpsgd_explorer.errors import ConfigError, PrivacyError
from dpsgd_explorer.integrations.lightning_trainer import (
    check_trainer,
    count_users,
    given_loader,
    steps_of,
    trained_module,
)
from dpsgd_explorer.integrations.planned_run import (
    EpochBatches,
    check_privacy,
    privacy_metrics,
    write_receipt,
)

__all__ = ["DPCallback"]

#: End of the name of a receipt; a checkpoint ``NAME.ckpt`` has ``NAME.privacy.json``.
RECEIPT_SUFFIX = ".privacy.json"


class DPCallback(Callback):
    """Trains a ``LightningModule`` with DP-SGD; a callback of ``lightning.Trainer``.

    The batches of the training come from the data set of the training ``DataLoader``:
    each record is in a batch with probability ``batch_size / len(dataset)``, so sizes
    differ, and ``shuffle`` has no effect.  The gradient of each record is clipped, and
    noise is added in ``optimizer.step()``, in automatic and in manual optimization.
    The training ends with its plan: ``max_epochs`` or ``max_steps``.

    Logs contain ``epsilon`` and ``epsilon_left``.  A checkpoint contains the state of
    the engine, and has a receipt next to it, ``NAME.privacy.json``.  For an empty batch
    ``training_step`` is not called, and the step is noise.

    ``training_step`` must compute a mean of one term per record, and call the module as
    a whole: ``self(x)``, or a submodule that contains all trained parameters.

    Args:
        module: Name of the submodule that ``training_step`` calls.  If None, it is the
            ``LightningModule`` where that defines ``forward``, or else its only
            submodule with trained parameters.
        lost_steps: For a resume: the number of steps after the checkpoint whose results
            anyone may have seen; see ``PrivacyEngine.load_state_dict``.
        privacy: Arguments of ``dp.PrivacyEngine`` by name, such as ``target_epsilon``,
            ``target_delta``, ``noise_multiplier``, ``max_grad_norm``, ``clipping_fn``
            or ``noise``.  Sizes and length follow from the trainer and its data.  With
            ``user_ids``, one owner per record, ``batch_size`` of the ``DataLoader``
            counts users, an epoch has each user once on average, and a batch is one
            call of the module, because the records of a user are clipped together.

    Attributes:
        engine: The ``dp.PrivacyEngine`` of the training, or None before ``fit``.

    Raises:
        ConfigError: when ``fit`` begins: an argument is outside its domain, or the
            trainer or its data cannot be combined with DP-SGD.

    Source: Abadi et al. (2016), arXiv:1607.00133, Algorithm 1.

    Example:
        >>> import lightning, torch
        >>> from torch.nn.functional import cross_entropy
        >>> from torch.utils.data import DataLoader, TensorDataset
        >>> from dpsgd_explorer.integrations.lightning import DPCallback
        >>> class Classifier(lightning.LightningModule):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.model = torch.nn.Linear(3, 2)
        ...     def training_step(self, batch):
        ...         inputs, targets = batch
        ...         return cross_entropy(self.model(inputs), targets)
        ...     def configure_optimizers(self):
        ...         return torch.optim.SGD(self.parameters(), lr=0.1)
        >>> data = TensorDataset(torch.randn(200, 3), torch.randint(2, (200,)))
        >>> privacy = DPCallback(target_epsilon=3.0)
        >>> trainer = lightning.Trainer(
        ...     max_epochs=2,
        ...     callbacks=[privacy],
        ...     accelerator="cpu",
        ...     logger=False,
        ...     enable_checkpointing=False,
        ...     enable_progress_bar=False,
        ...     enable_model_summary=False,
        ... )
        >>> trainer.fit(Classifier(), DataLoader(data, batch_size=20))
        >>> privacy.engine.steps_done, round(privacy.engine.get_epsilon(), 3)
        (20, 3.0)
    """

    def __init__(
        self, *, module: str | None = None, lost_steps: int = 0, **privacy: Any
    ) -> None:
        parts = (
            "the trainer steps once per batch. Choose a smaller batch_size, or use "
            "manual optimization: several manual_backward calls over parts of a batch, "
            "then one step()"
        )
        check_privacy(privacy, parts)
        self._name, self._lost_steps, self._privacy = module, lost_steps, privacy
        user_ids = privacy.get("user_ids")
        self._users = None if user_ids is None else Users(user_ids).count
        self.engine: dp.PrivacyEngine | None = None
        self._plan_is_whole = True  # no earlier phase is added to its epsilon
        self._has_trained = False  # on a batch with records
        self._state: dict[str, Any] | None = None
        self._undo = ExitStack()

    def __repr__(self) -> str:
        return f"DPCallback({self.engine})"

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Checks the arguments of the trainer."""
        if stage == "fit":
            self._undo.close()  # an interrupted training leaves the engine attached
            check_trainer(trainer)
            self._state = None  # a checkpoint is read after this
            if self._users is not None:
                self._undo.callback(count_users(trainer, self._users))

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Creates the engine, with the count of the checkpoint, and its batches."""
        given, sample_size = given_loader(trainer)
        if trainer.ckpt_path is not None and self._state is None:
            raise ConfigError(
                "ckpt_path",
                "ckpt_path must be a checkpoint of a training with DPCallback, which "
                "holds the count of the steps done, got one of a training without "
                "privacy. Load its weights, and begin a new training.",
            )
        arguments = {"after": self.engine} | self._privacy
        self._plan_is_whole = arguments["after"] is None
        self._has_trained = False
        engine = dp.PrivacyEngine(
            trained_module(pl_module, self._name),
            batch_size=given.batch_size,
            sample_size=sample_size if self._users is None else self._users,
            steps=steps_of(trainer, pl_module, resumes=self._state is not None),
            **arguments,
        )
        loader = engine.poisson_loader(
            given.dataset, collate=given.collate_fn, num_workers=given.num_workers
        )
        engine.attach(*trainer.optimizers)
        self._undo.callback(engine.detach)
        if self._state is not None:
            engine.load_state_dict(self._state, lost_steps=self._lost_steps)
            self._state = None
        self.engine = engine
        per_epoch = int(trainer.num_training_batches)
        _replace_batches(trainer, EpochBatches(loader, per_epoch))
        self._undo.callback(_step_without_records(pl_module))
        io = trainer.strategy.checkpoint_io
        if not isinstance(io, _WithReceipt):
            trainer.strategy.checkpoint_io = _WithReceipt(io, self)

    def on_train_batch_end(
        self,
        trainer: Any,
        pl_module: LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
    ) -> None:
        """Logs epsilon, and ends the training with its plan."""
        engine = self._engine()
        self._has_trained |= not _is_empty(batch)
        done = trainer.fit_loop.total_batch_idx + 1
        if done % max(1, trainer.log_every_n_steps) == 0:
            self._log(pl_module)
        if engine.steps_done >= engine.plan.steps:
            trainer.should_stop = True

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Logs epsilon after an epoch."""
        self._log(pl_module)

    def _log(self, pl_module: LightningModule) -> None:
        metrics = privacy_metrics(self.engine, plan_is_whole=self._plan_is_whole)
        for name, value in metrics.items():
            pl_module.log(name, value, prog_bar=name == "epsilon")

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Restores module and optimizers."""
        self._undo.close()

    def on_exception(
        self, trainer: Trainer, pl_module: LightningModule, exception: BaseException
    ) -> None:
        """Adds a remedy to an error of the first step with records."""
        engine = self.engine
        if (
            engine is None
            or self._has_trained
            or not isinstance(exception, PrivacyError)
        ):
            return
        modules = dict(pl_module.named_modules())
        name = next(n for n, m in modules.items() if m is engine.module)
        called = f"self.{name}" if name else "self"
        exception.add_note(
            f"DPCallback makes calls of {called}(...) private. If training_step calls "
            'another module, name it, such as DPCallback(module="model").'
        )

    def state_dict(self) -> dict[str, Any]:
        """Returns the state of the engine, for a checkpoint."""
        return {} if self.engine is None else {"engine": self.engine.state_dict()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Stores the state of a checkpoint, for the engine that ``fit`` creates."""
        self._state = state_dict["engine"]

    def receipt(self) -> dict[str, Any]:
        """Returns the planned and the actual values; see ``PrivacyEngine.receipt``.

        Raises:
            PrivacyError: no training has begun.
        """
        return self._engine().receipt()

    def _engine(self) -> dp.PrivacyEngine:
        if self.engine is None:
            raise PrivacyError("no training has begun. Call trainer.fit() first.")
        return self.engine


class _WithReceipt(CheckpointIO):
    """Writes and removes a receipt with each checkpoint.

    Args:
        io: Writes and reads the checkpoints.
        callback: Has the receipt.
    """

    def __init__(self, io: CheckpointIO, callback: DPCallback) -> None:
        self._io, self._callback = io, callback

    def save_checkpoint(
        self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None
    ) -> None:
        """Writes a checkpoint, with the receipt next to it."""
        self._io.save_checkpoint(checkpoint, path, storage_options)
        if "://" not in str(path):  # a remote file has no receipt next to it
            engine = self._callback._engine()
            write_receipt(engine, Path(path).with_suffix(RECEIPT_SUFFIX))

    def load_checkpoint(self, path: Any, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Reads a checkpoint."""
        return self._io.load_checkpoint(path, *args, **kwargs)

    def remove_checkpoint(self, path: Any) -> None:
        """Removes a checkpoint and its receipt."""
        self._io.remove_checkpoint(path)
        if "://" not in str(path):
            Path(path).with_suffix(RECEIPT_SUFFIX).unlink(missing_ok=True)

    def teardown(self) -> None:
        """Ends the writing of checkpoints."""
        self._io.teardown()


def _replace_batches(trainer: Trainer, batches: EpochBatches) -> None:
    """Puts the batches of the engine in the place of the loader's."""
    data = trainer.fit_loop._data_fetcher
    assert data is not None
    data.combined_loader.reset()
    data.combined_loader.flattened = [batches]
    iter(data)


def _step_without_records(pl_module: LightningModule) -> Callable[[], None]:
    """Makes the step of an empty batch without a call of ``training_step``.

    Models cannot reshape an empty batch, and its mean loss is 0/0.

    Returns:
        A function that restores the module.
    """
    given = pl_module.training_step
    before = vars(pl_module).get("training_step")

    @functools.wraps(given)
    def training_step(batch: Any, *args: Any, **kwargs: Any) -> Any:
        if not _is_empty(batch):
            return given(batch, *args, **kwargs)
        if not pl_module.automatic_optimization:
            optimizers: Any = pl_module.optimizers()
            if not isinstance(optimizers, list):
                optimizers = [optimizers]
            for optimizer in optimizers:
                optimizer.step()
                optimizer.zero_grad()
        return None  # in automatic optimization, a step without backward

    # The trainer reads the parameters of the innermost function, for example of the
    # one that torch.compile has wrapped.
    vars(training_step)["__wrapped__"] = inspect.unwrap(given)

    def restore() -> None:
        del vars(pl_module)["training_step"]
        if before is not None:
            vars(pl_module)["training_step"] = before

    vars(pl_module)["training_step"] = training_step
    return restore


def _is_empty(batch: Any) -> bool:
    """Returns True if the tensors of a batch have no rows."""
    leaves = [x for x in tree_leaves(batch) if isinstance(x, Tensor) and x.dim() > 0]
    return bool(leaves) and not any(map(len, leaves))
