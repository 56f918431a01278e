"""Differential privacy in the ``Trainer`` of Hugging Face transformers.

``DPTrainer`` takes the place of ``transformers.Trainer``.  It needs the extra
``transformers``.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves, tree_map

from dpsgd_explorer import dp
from dpsgd_explorer.dp.sampling.records import fetcher
from dpsgd_explorer.dp.sampling.users import Users
from dpsgd_explorer.errors import ConfigError, PrivacyError
from dpsgd_explorer.integrations.per_sample_loss import (
    is_multi_label,
    per_sample_loss,
    predicts_next,
)
from dpsgd_explorer.integrations.planned_run import (
    EpochBatches,
    check_privacy,
    privacy_metrics,
    reject_arguments,
    write_receipt,
)

__all__ = ["DPTrainer"]

STATE_FILE = "privacy_engine.pt"
RECEIPT_FILE = "privacy.json"


class DPTrainer(transformers.Trainer):
    """``transformers.Trainer`` with DP-SGD.

    A batch has the expected size ``per_device_train_batch_size *
    gradient_accumulation_steps``; a part of it, with at most
    ``per_device_train_batch_size`` samples, is on the device at a time.  Each record is
    in a batch with the same probability.  The training ends with the plan.  Logs
    contain ``epsilon`` and ``epsilon_left``; a checkpoint contains the state of the
    engine and the receipt, ``privacy.json``.

    The loss of a record is the mean over its labels, from the model's outputs: cross
    entropy over tokens or classes, binary cross entropy for several classes, or the
    squared error of a regression.  For another loss pass ``compute_loss_func``, a mean
    of one term per record.

    Args:
        args: The arguments of ``transformers.Trainer``, in its order.
        privacy: Arguments of ``dp.PrivacyEngine`` by name, such as ``target_epsilon``,
            ``target_delta``, ``noise_multiplier``, ``max_grad_norm``, ``clipping_fn``
            or ``noise``.  Sizes and length follow from the training arguments.  With
            ``user_ids``, one owner per record, they count users, an epoch has each user
            once on average, and a batch is on the device as a whole, because the
            records of a user are clipped together.
        lost_steps: For a resume: the number of steps after the checkpoint whose results
            anyone may have seen; see ``PrivacyEngine.load_state_dict``.
        options: The arguments of ``transformers.Trainer`` by name.

    Attributes:
        engine: The ``dp.PrivacyEngine`` of the training, or None before ``train``.

    Raises:
        ConfigError: an argument is outside its domain, or a training argument cannot be
            combined with DP-SGD.

    Source: Abadi et al. (2016), arXiv:1607.00133, Algorithm 1.

    Example:
        >>> import tempfile, torch
        >>> from transformers import BertConfig, BertForSequenceClassification
        >>> from transformers import TrainingArguments
        >>> from dpsgd_explorer.integrations.transformers import DPTrainer
        >>> texts = [
        ...     {"input_ids": torch.randint(9, (4,)), "labels": i % 2}
        ...     for i in range(20)
        ... ]
        >>> sizes = {"hidden_size": 4, "num_hidden_layers": 1, "num_attention_heads": 1}
        >>> model = BertForSequenceClassification(
        ...     BertConfig(vocab_size=9, intermediate_size=4, **sizes)
        ... )
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     trainer = DPTrainer(
        ...         model=model,
        ...         args=TrainingArguments(
        ...             folder,
        ...             per_device_train_batch_size=5,
        ...             num_train_epochs=1,
        ...             disable_tqdm=True,
        ...             report_to=[],
        ...             use_cpu=True,
        ...         ),
        ...         train_dataset=texts,
        ...         privacy={"target_epsilon": 3.0},
        ...     )
        ...     result = trainer.train()  # doctest: +ELLIPSIS
        {'train_runtime': ...}
        >>> trainer.engine.steps_done, round(trainer.engine.get_epsilon(), 3)
        (4, 3.0)
    """

    def __init__(
        self,
        *args: Any,
        privacy: Mapping[str, Any],
        lost_steps: int = 0,
        **options: Any,
    ) -> None:
        parts = "per_device_train_batch_size is the largest part on the device"
        check_privacy(privacy, parts)
        super().__init__(*args, **options)
        self._privacy, self._lost_steps = dict(privacy), lost_steps
        self.engine: dp.PrivacyEngine | None = None
        self._plan_is_whole = True  # no earlier phase is added to its epsilon
        self._part_size = self.args.per_device_train_batch_size
        self._expected_size = self._part_size * self.args.gradient_accumulation_steps
        _check(self.args, self.label_smoother)
        user_ids = self._privacy.get("user_ids")
        self._users = None if user_ids is None else Users(user_ids).count
        self.args = copy.copy(self.args)
        # A batch of the loader is a whole batch: ``training_step`` splits it.
        self.args.gradient_accumulation_steps = 1
        self.accelerator.gradient_accumulation_steps = 1
        # The engine clips each sample; the loader continues where the plan stopped.
        self.args.max_grad_norm, self.args.ignore_data_skip = 0.0, True
        self.add_callback(_Detaching(self))

    def __repr__(self) -> str:
        return f"DPTrainer({self.engine})"

    def get_train_dataloader(self) -> Any:
        """Returns the loader of Poisson batches, for a new engine."""
        given: Any = super().get_train_dataloader()
        records = given.dataset
        _, sample_size = fetcher(records, given.collate_fn)
        if self._users is not None:
            sample_size = self._users
        per_epoch = math.ceil(sample_size / self._expected_size)
        steps = self.args.max_steps
        if steps <= 0:
            steps = math.ceil(self.args.num_train_epochs * per_epoch)
        if self.engine is not None:  # an interrupted training leaves it attached
            self.engine.detach()
        arguments = {"after": self.engine} | self._privacy
        self._plan_is_whole = arguments["after"] is None
        model: Any = self.model
        self.engine = dp.PrivacyEngine(
            model,
            batch_size=self._expected_size,
            sample_size=sample_size,
            steps=steps,
            **arguments,
        )
        loader = self.engine.poisson_loader(
            records,
            collate=given.collate_fn,
            num_workers=self.args.dataloader_num_workers,
        )
        return EpochBatches(loader, per_epoch)

    def create_optimizer(self, model: Any = None) -> torch.optim.Optimizer:
        """Creates the optimizer and makes its steps private."""
        optimizer: torch.optim.Optimizer = super().create_optimizer(model)
        self._engine().attach(optimizer)
        return optimizer

    def training_step(
        self,
        model: nn.Module,
        inputs: dict[str, Any],
        num_items_in_batch: Any = None,
    ) -> Tensor:
        """Returns the mean loss of a batch, after the backward of all its parts.

        Args:
            model: The model.
            inputs: The batch, with tensors of shape ``(B, ...)``.
            num_items_in_batch: Not used: a loss that is divided by the number of labels
                in the batch mixes its samples.

        Raises:
            ConfigError: the tensors of the batch have different numbers of rows.
        """
        model.train()
        inputs = self._prepare_inputs(inputs)
        sizes = {len(x) for x in tree_leaves(inputs) if _is_batch(x)}
        if len(sizes) != 1:
            raise ConfigError(
                "data_collator",
                "data_collator must return tensors with one row per record, got "
                f"{sorted(sizes)} rows.",
            )
        (size,) = sizes
        total = torch.zeros((), device=self.args.device)
        part_size = self._part_size if self._users is None else max(1, size)
        # An empty batch has no part: models cannot reshape it, and its step is noise.
        for start in range(0, size, part_size):
            end = min(size, start + part_size)
            part = tree_map(
                lambda x, rows=slice(start, end): x[rows] if _is_batch(x) else x, inputs
            )
            with self.compute_loss_context_manager():
                loss = self.compute_loss(model, part)
            # Not by accelerate, which would divide the loss by a number.
            loss.backward()
            total += loss.detach() * (end - start) / size
        return total

    def compute_loss(
        self,
        model: nn.Module,
        inputs: dict[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: Any = None,
    ) -> Any:
        """Returns the mean of the losses of the samples while training.

        Args:
            model: The model.
            inputs: A part of a batch.
            return_outputs: If True, the result is (loss, outputs).
            num_items_in_batch: Not used.

        Raises:
            ConfigError: the loss of a sample cannot be derived from outputs and labels.
        """
        if not model.training or self.compute_loss_func is not None:
            return super().compute_loss(model, inputs, return_outputs)
        inputs = dict(inputs)
        labels = inputs.pop("labels", None)
        if labels is None:
            raise ConfigError(
                "labels",
                "labels must be in every batch. For another loss pass "
                "compute_loss_func, a mean of one term per record.",
            )
        unwrapped: Any = self.accelerator.unwrap_model(model)
        if hasattr(unwrapped, "get_base_model"):  # an adapter of peft
            unwrapped = unwrapped.get_base_model()
        if unwrapped.config.is_encoder_decoder and "decoder_input_ids" not in inputs:
            inputs["decoder_input_ids"] = (
                unwrapped.prepare_decoder_input_ids_from_labels(labels=labels)
            )
        outputs = model(**inputs)
        logits = outputs["logits"] if isinstance(outputs, dict) else outputs[0]
        loss = per_sample_loss(
            logits,
            labels,
            predicts_next=predicts_next(unwrapped),
            is_multi_label=is_multi_label(unwrapped.config),
        )
        return (loss, outputs) if return_outputs else loss

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Logs values, with the epsilon of the steps done and what is left.

        Args:
            logs: The values.
            start_time: Start of the training.
        """
        logs.update(privacy_metrics(self.engine, plan_is_whole=self._plan_is_whole))
        super().log(logs, start_time)

    def _get_grad_norm(self, model: nn.Module, grad_norm: Any = None) -> None:
        """Returns None: before the step there is no gradient that may be read."""

    def _engine(self) -> dp.PrivacyEngine:
        if self.engine is None:
            raise PrivacyError("no training has begun. Call train() first.")
        return self.engine

    def receipt(self) -> dict[str, Any]:
        """Returns the planned and the actual values; see ``PrivacyEngine.receipt``.

        Raises:
            PrivacyError: no training has begun.
        """
        return self._engine().receipt()

    def _save_optimizer_and_scheduler(self, output_dir: str) -> None:
        super()._save_optimizer_and_scheduler(output_dir)
        torch.save(self._engine().state_dict(), Path(output_dir) / STATE_FILE)
        self._save_receipt(output_dir)

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        super()._load_optimizer_and_scheduler(checkpoint)
        if checkpoint is not None:
            file = Path(checkpoint) / STATE_FILE
            if not file.exists():
                raise ConfigError(
                    "resume_from_checkpoint",
                    f"resume_from_checkpoint must hold {STATE_FILE}, the count of the "
                    "steps done, got a checkpoint of a training without privacy. Load "
                    "its model, and begin a new training.",
                )
            state = torch.load(file, weights_only=True)
            self._engine().load_state_dict(state, lost_steps=self._lost_steps)

    def save_model(
        self, output_dir: str | None = None, _internal_call: bool = False
    ) -> None:
        """Saves the model, with the receipt beside it.

        Args:
            output_dir: Folder; if None, ``args.output_dir``.
            _internal_call: True for a call of the trainer itself.
        """
        super().save_model(output_dir, _internal_call)
        if self.engine is not None:
            self._save_receipt(output_dir or self.args.output_dir)

    def _save_receipt(self, folder: str | None) -> None:
        write_receipt(self._engine(), Path(str(folder), RECEIPT_FILE))

    def create_model_card(self, *args: Any, **options: Any) -> None:
        """Writes the model card of transformers, with the receipt at its end."""
        super().create_model_card(*args, **options)
        card = Path(str(self.args.output_dir), "README.md")
        text = dp.receipt_text(self._engine().receipt())
        with card.open("a", encoding="utf-8") as file:
            file.write(f"\n## Differential privacy\n\n```\n{text}\n```\n")


class _Detaching(transformers.TrainerCallback):
    """Detaches the engine at the end of a training."""

    def __init__(self, trainer: DPTrainer) -> None:
        self._trainer = trainer

    def on_train_end(self, *_: Any, **__: Any) -> None:
        """Restores model and optimizer."""
        self._trainer._engine().detach()


def _is_batch(value: Any) -> bool:
    """Returns True for a tensor with one row per sample."""
    return isinstance(value, Tensor) and value.dim() > 0


def _check(args: transformers.TrainingArguments, label_smoother: Any) -> None:
    """Raises ConfigError for training arguments that DP-SGD cannot have."""
    rejected = {
        "fp16": (
            args.fp16,
            "gradients of float16 overflow at the scale of single samples; use bf16",
        ),
        "n_gpu": (args.n_gpu > 1, "DataParallel is not supported; use one device"),
        "world_size": (
            args.world_size > 1,
            "several processes are not supported here; use dp.PrivacyEngine(group=...)",
        ),
        "label_smoothing_factor": (
            label_smoother is not None,
            "it averages over the labels of a batch; pass compute_loss_func",
        ),
        "auto_find_batch_size": (
            args.auto_find_batch_size,
            "a change of the batch size changes the mechanism",
        ),
        "deepspeed": (args.deepspeed, "DeepSpeed shards gradients before clipping"),
    }
    reject_arguments(rejected)
