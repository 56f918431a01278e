"""The ``model`` events of a run: weights, confusions, groups, hard test pictures.

A log holds at most ``MOST_SNAPSHOTS`` of them after the one of the start, and at most
``MOST_WEIGHT_BYTES`` of weights: larger models are shown at fewer evaluations, and a
model that would be shown at its end only is not shown at all.

Everything follows from the parameters and the test records, so it is reproduced bit for
bit.  The parameters are what DP-SGD releases; the rest is about test records, which the
guarantee does not speak of.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from dpsgd_explorer.training.datasets import registry as datasets

MOST_SNAPSHOTS = 40
MOST_WEIGHT_BYTES = 430_000  # as base64, in one run's log
MOST_MISREAD_BYTES = 1_250  # before base64, in one event
PICTURES_PER_CLASS = 5
LARGEST_LEVEL = 127  # of a weight in 8 bits
PICTURE_LEVEL = 15  # of a pixel in 4 bits
SKIP = 15  # upper half of a byte that passes over right records, and their unit
MOST_CLASSES = 16  # that fit beside it in a byte


class ModelSnapshots:
    """Describes one run's model at its start and after evaluations.

    Args:
        model: The model that is trained.
        dataset: A key of the catalogue's data sets.
        evaluated: Steps after which the test records are predicted, in order.
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
        self._steps = frozenset(spread(evaluated, MOST_SNAPSHOTS))
        self._last = max(evaluated)
        shown = MOST_WEIGHT_BYTES // encoded_bytes(model) - 1
        self._weighed = frozenset(spread(evaluated, min(shown, MOST_SNAPSHOTS)))

    def start(self) -> dict[str, Any]:
        """Return the event's data before the first step."""
        return self._data(
            weights=encoded_weights(self._model) if self._weighed else None,
            features=list(self._names) or None,
        )

    def after(self, step: int, scores: Tensor) -> dict[str, Any] | None:
        """Return the event's data after an evaluation; None where there is none.

        Shapes: scores [N_test, classes].
        """
        if step not in self._steps:
            return None
        targets, classes = self._test.targets, scores.shape[1]
        predicted = scores.argmax(dim=1)
        has_pictures = self._test.inputs.dim() == 4 and classes <= MOST_CLASSES
        return self._data(
            weights=encoded_weights(self._model) if step in self._weighed else None,
            confusion=confusion(predicted, targets, classes),
            groups=group_errors(predicted != targets, self._groups) or None,
            misread=misread(predicted, targets) if has_pictures else None,
            pictures=self._pictures(scores)
            if has_pictures and step == self._last
            else None,
        )

    def _pictures(self, scores: Tensor) -> dict[str, Any]:
        """Return the test pictures that the model is least sure of, class by class."""
        targets = self._test.targets
        chosen = undecided(scores, targets, PICTURES_PER_CLASS)
        pixels = self._test.inputs[chosen, 0]
        return {
            "shape": list(pixels.shape[1:]),
            "indices": chosen.tolist(),
            "labels": targets[chosen].tolist(),
            "values": _text(_nibbles((PICTURE_LEVEL * pixels).round().flatten())),
        }

    def _data(self, **known: Any) -> dict[str, Any]:
        names = ("weights", "features", "confusion", "groups", "misread", "pictures")
        return dict.fromkeys(names) | known


def spread(steps: Sequence[int], most: int) -> list[int]:
    """Return at most ``most`` of the steps, evenly chosen, the last among them."""
    count = min(most, len(steps))
    return [steps[-(-len(steps) * i // count) - 1] for i in range(1, count + 1)]


def encoded_bytes(model: nn.Module) -> int:
    """Return the length of all weights as base64."""
    return sum(4 * -(-p.numel() // 3) for p in model.parameters())


def encoded_weights(model: nn.Module) -> dict[str, dict[str, Any]]:
    """Return each parameter in 8 bits: ``shape``, ``scale`` and base64 ``values``.

    An entry is ``scale`` times a signed byte, within ``scale`` / 2 of the parameter's.
    """
    return {name: _encoded(p.detach()) for name, p in model.named_parameters()}


def _encoded(values: Tensor) -> dict[str, Any]:
    scale = float(values.abs().max()) / LARGEST_LEVEL
    levels = torch.round(values / (scale or 1.0)).to(torch.int8)
    data = levels.contiguous().flatten().numpy().tobytes()
    return {"shape": list(values.shape), "scale": scale, "values": _text(data)}


def confusion(predicted: Tensor, targets: Tensor, classes: int) -> list[list[int]]:
    """Return how many records of each class (row) are read as each (column)."""
    places = targets * classes + predicted
    counts = torch.bincount(places, minlength=classes**2)
    rows: list[list[int]] = counts.view(classes, classes).tolist()
    return rows


def memberships(
    inputs: Tensor, names: Sequence[str], attributes: Sequence[str]
) -> dict[str, dict[str, Tensor]]:
    """Return who is in which group: {attribute: {value: bool [N]}}.

    A column named "sex = Female" is not 0 for the records of that group.  Groups
    without records are left out.
    """
    found: dict[str, dict[str, Tensor]] = {name: {} for name in attributes}
    for column, name in enumerate(names):
        attribute, _, value = name.partition(" = ")
        if attribute in found and bool((inside := inputs[:, column] != 0).any()):
            found[attribute][value] = inside
    return found


def group_errors(
    wrong: Tensor, groups: Mapping[str, Mapping[str, Tensor]]
) -> dict[str, dict[str, list[int]]]:
    """Return records and misread records of each group."""
    return {
        attribute: {
            value: [int(inside.sum()), int((wrong & inside).sum())]
            for value, inside in values.items()
        }
        for attribute, values in groups.items()
    }


def misread(predicted: Tensor, targets: Tensor) -> str | None:
    """Return which records are misread as what, in base64; None if it gets too long.

    A byte's upper half counts right records to pass over, and the record after them is
    misread as the lower half.  An upper half of 15 only passes over right records: 15
    for each one that the lower half counts, and 15 more.
    """
    wrong = (predicted != targets).nonzero().flatten()
    if len(wrong) > MOST_MISREAD_BYTES:
        return None
    data, following = bytearray(), 0
    for index, read in zip(wrong.tolist(), predicted[wrong].tolist(), strict=True):
        skips, rest = divmod(index - following, SKIP)
        data += _skips(skips) + bytes([rest << 4 | read])
        following = index + 1
    return _text(bytes(data)) if len(data) <= MOST_MISREAD_BYTES else None


def _skips(count: int) -> bytes:
    """Return the bytes that pass over ``count`` times ``SKIP`` records."""
    whole, rest = divmod(count, MOST_CLASSES)
    last = [rest - 1] if rest else []
    return bytes(SKIP << 4 | lower for lower in [MOST_CLASSES - 1] * whole + last)


def undecided(scores: Tensor, targets: Tensor, per_class: int) -> Tensor:
    """Return the records whose true class is closest to the best other: int64 [n].

    They are ordered by class, the closest first.
    """
    places = torch.arange(len(targets))
    others = scores.clone()
    others[places, targets] = -torch.inf
    distance = (scores[places, targets] - others.max(dim=1).values).abs()
    order = torch.argsort(distance, stable=True)
    return torch.cat(
        [order[targets[order] == c][:per_class] for c in range(scores.shape[1])]
    )


def _nibbles(levels: Tensor) -> bytes:
    """Return values of 0 to 15, two in a byte, the first in the upper half."""
    pairs = levels.to(torch.uint8).view(-1, 2)
    return (pairs[:, 0] * 16 + pairs[:, 1]).numpy().tobytes()


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")
