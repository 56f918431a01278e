"""The loss that the language model is trained by, and the bits that it needs."""

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from dpsgd_explorer.training.datasets.sentences import IGNORED, following
from dpsgd_explorer.training.losses import mean_of_texts


def loss_of(model: nn.Module, ids: Tensor) -> Tensor:
    """Returns the mean over texts of the mean loss of each text's bytes."""
    return mean_of_texts(model(ids[:, :-1]), following(ids))


@torch.no_grad()
def losses_of(model: nn.Module, ids: Tensor) -> Tensor:
    """Returns the loss of each next byte (B, T - 1), 0 behind the end of a text."""
    return cross_entropy(model(ids[:, :-1]), following(ids), reduction="none")


def bits_per_byte(model: nn.Module, ids: Tensor) -> float:
    """Returns the mean number of bits that the model needs for a byte of texts."""
    total = sum(losses_of(model, chunk).sum().item() for chunk in ids.split(500))
    count = (following(ids) != IGNORED).sum().item()
    return total / count / math.log(2)
