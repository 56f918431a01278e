"""Losses of models of transformers, averaged over samples."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.nn import functional as F
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

from dpsgd_explorer import dp
from dpsgd_explorer.errors import ConfigError

#: Label of positions that do not count, as in transformers.
IGNORED = -100


def per_sample_loss(
    logits: Tensor,
    labels: Tensor,
    *,
    predicts_next: bool = False,
    is_multi_label: bool = False,
) -> Tensor:
    """Returns the mean over the samples of the mean loss of a sample.

    Args:
        logits: Outputs ``(B, T, classes)`` for labels of tokens, ``(B, classes)`` for
            labels of samples, ``(B, 1)`` or ``(B, targets)`` for a regression.
        labels: Whole numbers ``(B, T)`` or ``(B,)``, of which -100 does not count;
            numbers ``(B,)`` or ``(B, targets)`` for a regression; 0.0 or 1.0
            ``(B, classes)`` for several classes per sample.
        predicts_next: If True, an output predicts the next label of the sequence.
        is_multi_label: If True, labels with decimals are several classes per sample.

    Raises:
        ConfigError: the shapes fit none of these cases.

    Example:
        >>> import torch
        >>> from dpsgd_explorer.integrations.per_sample_loss import per_sample_loss
        >>> logits = torch.zeros(2, 3, 4)
        >>> labels = torch.tensor([[0, 1, 2], [3, -100, -100]])
        >>> round(per_sample_loss(logits, labels).item(), 4)  # log 4
        1.3863
    """
    if predicts_next and logits.dim() == 3 and labels.dim() == 2:
        logits, labels = logits[:, :-1], labels[:, 1:]
    if labels.is_floating_point():
        values = logits.squeeze(-1) if labels.dim() == 1 else logits
        if values.shape == labels.shape:
            if is_multi_label:
                return F.binary_cross_entropy_with_logits(values, labels)
            return F.mse_loss(values, labels)
    elif logits.dim() == labels.dim() + 1 and logits.shape[:-1] == labels.shape:
        losses = F.cross_entropy(
            logits.movedim(-1, 1), labels, reduction="none", ignore_index=IGNORED
        )
        if labels.dim() == 1:
            return losses.mean()
        return dp.per_sample_mean(losses, labels != IGNORED)
    raise ConfigError(
        "labels",
        f"labels of shape {tuple(labels.shape)} must fit logits of shape "
        f"{tuple(logits.shape)}: one class per sample or token, or numbers. For "
        "another loss pass compute_loss_func, a mean of one term per record.",
    )


def predicts_next(model: Any) -> bool:
    """Returns True if an output of the model predicts the next label.

    Args:
        model: A model of transformers.
    """
    names = {kind.__name__ for kind in type(model).__mro__}
    generates = any(name.endswith("ForConditionalGeneration") for name in names)
    is_causal = names & set(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.values())
    return not model.config.is_encoder_decoder and bool(is_causal or generates)


def is_multi_label(config: Any) -> bool:
    """Returns True if labels with decimals are classes, as transformers decides it.

    Args:
        config: The configuration of a model of transformers.
    """
    if config.problem_type is None:
        return bool(config.num_labels > 1)
    return bool(config.problem_type == "multi_label_classification")
