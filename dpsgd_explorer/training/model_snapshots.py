"""The ``model`` events of a run: weights, confusion matrix, groups, hard test pictures.

A language model has no confusion matrix; its events contain texts that it writes.

A log contains one event at the start and at most ``MAX_SNAPSHOTS`` later events.  Their
weights take at most ``MAX_WEIGHT_BYTES``: weights of larger models are in fewer events.
If they would fit only in the last event, they are in none.

All values are computed from the parameters and the test records, so they are
reproducible bit for bit.  DP-SGD protects the training records in the parameters.  The
guarantee does not cover test records.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from dpsgd_explorer.training.datasets import registry as datasets
from dpsgd_explorer.training.datasets.sentences import IGNORED
from dpsgd_explorer.training.language_model import (
    SHOWN_TEXTS,
    LanguageModel,
    written,
)

#: Maximum number of ``model`` events of a run after the first.
MAX_SNAPSHOTS = 40
#: Maximum bytes of weights in a run's log, as base64.
MAX_WEIGHT_BYTES = 430_000
#: Maximum bytes of the misread records of an event, before base64.
MAX_MISREAD_BYTES = 1_250
#: Number of hard test pictures per class.
PICTURES_PER_CLASS = 5
#: Largest absolute value of a weight in 8 bits.
MAX_WEIGHT_LEVEL = 127
#: Largest value of a pixel in 4 bits.
MAX_PIXEL_LEVEL = 15
#: Upper half of a byte that only skips correct records, and the number of records that
#: a unit of the lower half skips.
SKIP = 15
#: Maximum number of classes, so that a class fits in half a byte.
MAX_CLASSES = 16


class ModelSnapshots:
    """Describes one run's model at its start and after evaluations.

    Args:
        model: The model that is trained.
        dataset: A key of the catalogue's data sets.
        evaluated: Steps with an evaluation, in order.
    """

    def __init__(
        self, model: nn.Module, dataset: str, evaluated: Sequence[int]
    ) -> None:
        _, self._test = datasets.load(dataset)
        self._names = datasets.LOADERS[dataset].feature_names()
        self._groups = memberships(
            self._test.inputs, self._names, datasets.LOADERS[dataset].groups
        )
        self._model = model
        self._steps = frozenset(spread(evaluated, MAX_SNAPSHOTS))
        self._last = max(evaluated)
        count = MAX_WEIGHT_BYTES // encoded_bytes(model) - 1
        self._with_weights = frozenset(spread(evaluated, min(count, MAX_SNAPSHOTS)))

    def start(self) -> dict[str, Any]:
        """Returns the event's data before the first step."""
        return self._data(
            weights=encoded_weights(self._model) if self._with_weights else None,
            features=list(self._names) or None,
            **self._texts(),
        )

    def after(self, step: int, scores: Tensor) -> dict[str, Any] | None:
        """Returns the event's data after an evaluation; None if there is no event.

        Shapes: scores [N_test, classes], or [N_test, classes, T] for texts.
        """
        if step not in self._steps:
            return None
        weights = encoded_weights(self._model) if step in self._with_weights else None
        if self._test.targets.dim() > 1:
            right = (scores.argmax(dim=1) == self._test.targets).sum()
            count = (self._test.targets != IGNORED).sum()
            accuracy = {"accuracy": int(right) / int(count)}
            return self._data(weights=weights, **self._texts(), **accuracy)
        targets, classes = self._test.targets, scores.shape[1]
        predicted = scores.argmax(dim=1)
        has_pictures = self._test.inputs.dim() == 4 and classes <= MAX_CLASSES
        return self._data(
            weights=weights,
            confusion=confusion(predicted, targets, classes),
            groups=group_errors(predicted != targets, self._groups) or None,
            misread=misread(predicted, targets) if has_pictures else None,
            pictures=self._pictures(scores)
            if has_pictures and step == self._last
            else None,
        )

    def _texts(self) -> dict[str, Any]:
        """Returns texts that a language model writes with fixed random numbers."""
        if not isinstance(self._model, LanguageModel):
            return {}
        return {"texts": written(self._model, count=SHOWN_TEXTS)}

    def _pictures(self, scores: Tensor) -> dict[str, Any]:
        """Returns the test pictures with the least certain predictions, by class."""
        targets = self._test.targets
        chosen = least_certain(scores, targets, PICTURES_PER_CLASS)
        pixels = self._test.inputs[chosen, 0]
        return {
            "shape": list(pixels.shape[1:]),
            "indices": chosen.tolist(),
            "labels": targets[chosen].tolist(),
            "values": _text(_nibbles((MAX_PIXEL_LEVEL * pixels).round().flatten())),
        }

    def _data(self, **values: Any) -> dict[str, Any]:
        names = ("weights", "features", "confusion", "groups", "misread", "pictures")
        return dict.fromkeys(names) | values


def spread(steps: Sequence[int], max_count: int) -> list[int]:
    """Returns at most ``max_count`` of the steps, evenly spaced, including the last."""
    count = min(max_count, len(steps))
    return [steps[-(-len(steps) * i // count) - 1] for i in range(1, count + 1)]


def encoded_bytes(model: nn.Module) -> int:
    """Returns the bytes of all weights as base64."""
    return sum(4 * -(-p.numel() // 3) for p in model.parameters())


def encoded_weights(model: nn.Module) -> dict[str, dict[str, Any]]:
    """Returns each parameter in 8 bits: ``shape``, ``scale`` and base64 ``values``.

    An entry is ``scale`` times a signed byte, with an error of at most ``scale`` / 2.
    """
    return {name: _encoded(p.detach().cpu()) for name, p in model.named_parameters()}


def _encoded(values: Tensor) -> dict[str, Any]:
    scale = float(values.abs().max()) / MAX_WEIGHT_LEVEL
    levels = torch.round(values / (scale or 1.0)).to(torch.int8)
    data = levels.contiguous().flatten().numpy().tobytes()
    return {"shape": list(values.shape), "scale": scale, "values": _text(data)}


def confusion(predicted: Tensor, targets: Tensor, classes: int) -> list[list[int]]:
    """Returns the numbers of records by true (row) and predicted (column) class."""
    cells = targets * classes + predicted
    counts = torch.bincount(cells, minlength=classes**2)
    rows: list[list[int]] = counts.view(classes, classes).tolist()
    return rows


def memberships(
    inputs: Tensor, names: Sequence[str], attributes: Sequence[str]
) -> dict[str, dict[str, Tensor]]:
    """Returns the members of each group: {attribute: {value: bool [N]}}.

    A column such as "sex = Female" is nonzero for the members of the group.  Groups
    without records are left out.
    """
    groups: dict[str, dict[str, Tensor]] = {name: {} for name in attributes}
    for column, name in enumerate(names):
        attribute, _, value = name.partition(" = ")
        if attribute in groups and bool((inside := inputs[:, column] != 0).any()):
            groups[attribute][value] = inside
    return groups


def group_errors(
    wrong: Tensor, groups: Mapping[str, Mapping[str, Tensor]]
) -> dict[str, dict[str, list[int]]]:
    """Returns the numbers of records and of misread records of each group."""
    return {
        attribute: {
            value: [int(inside.sum()), int((wrong & inside).sum())]
            for value, inside in values.items()
        }
        for attribute, values in groups.items()
    }


def misread(predicted: Tensor, targets: Tensor) -> str | None:
    """Returns the misread records and their predicted classes, in base64.

    Each byte describes a misread record: the upper half is the number of correct
    records before it, and the lower half is its predicted class.  A byte with an upper
    half of 15 only skips correct records: 15 (k + 1) for a lower half of k.

    Returns:
        Text; None if it would exceed MAX_MISREAD_BYTES.
    """
    wrong = (predicted != targets).nonzero().flatten()
    if len(wrong) > MAX_MISREAD_BYTES:
        return None
    data, following = bytearray(), 0
    for index, read in zip(wrong.tolist(), predicted[wrong].tolist(), strict=True):
        skips, rest = divmod(index - following, SKIP)
        data += _skips(skips) + bytes([rest << 4 | read])
        following = index + 1
    return _text(bytes(data)) if len(data) <= MAX_MISREAD_BYTES else None


def _skips(count: int) -> bytes:
    """Returns the bytes that skip ``count`` times ``SKIP`` records."""
    whole, rest = divmod(count, MAX_CLASSES)
    last = [rest - 1] if rest else []
    return bytes(SKIP << 4 | lower for lower in [MAX_CLASSES - 1] * whole + last)


def least_certain(scores: Tensor, targets: Tensor, per_class: int) -> Tensor:
    """Returns the records with the least certain predictions, int64 [n].

    These are the records with the smallest distance between the scores of the true
    class and of the best other class.  They are ordered by class, then by distance.
    """
    rows = torch.arange(len(targets))
    others = scores.clone()
    others[rows, targets] = -torch.inf
    distance = (scores[rows, targets] - others.max(dim=1).values).abs()
    order = torch.argsort(distance, stable=True)
    return torch.cat(
        [order[targets[order] == c][:per_class] for c in range(scores.shape[1])]
    )


def _nibbles(levels: Tensor) -> bytes:
    """Returns values of 0 to 15, two per byte, the first in the upper half."""
    pairs = levels.to(torch.uint8).view(-1, 2)
    return (pairs[:, 0] * 16 + pairs[:, 1]).numpy().tobytes()


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")
