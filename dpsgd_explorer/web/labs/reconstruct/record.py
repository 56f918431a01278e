"""Record the pictures and the models that the lab of reconstruction takes gradients of.

    python -m dpsgd_explorer.web.labs.reconstruct.record

Writes ``recorded.json`` beside this file: the first training picture of each of some
labels, as bytes; a network with one hidden layer as torch initialises it, its weights
rounded to bytes; and torch's lengths of each picture's gradient, for it and for a
linear model whose weights are zero, as a check on the page's own arithmetic.
"""

from __future__ import annotations

import base64
import sys
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dpsgd_explorer.training.datasets import registry
from dpsgd_explorer.training.models import perceptron
from dpsgd_explorer.training.timing import one_thread
from tools.record.files import versions, write

LABELS = (3, 0, 1, 4, 2, 7, 5, 9)
CLASSES = 10
WIDTH = 32
SEED = 0


def main() -> int:
    """Take the pictures, make both models, and write the file."""
    one_thread()
    train, _ = registry.load("mnist")
    places = [int((train.targets == label).nonzero()[0]) for label in LABELS]
    pictures = train.inputs[places].flatten(1)
    targets = torch.tensor(LABELS)
    pixels = pictures.shape[1]
    torch.manual_seed(SEED)
    hidden = perceptron(pixels, WIDTH, CLASSES)
    scales = {name: _rounded(p) for name, p in hidden.named_parameters()}
    linear = perceptron(pixels, CLASSES)
    for parameter in linear.parameters():
        nn.init.zeros_(parameter)
    stored = {
        "places": places,
        "labels": list(LABELS),
        "pictures": _coded((pictures * 255).round().to(torch.uint8)),
        "width": WIDTH,
        "weights": {
            name: {"scale": scale, "values": _coded(_bytes(p, scale))}
            for (name, p), scale in zip(
                hidden.named_parameters(), scales.values(), strict=True
            )
        },
        "norms": {
            "linear": _norms(linear, pictures, targets),
            "hidden": _norms(hidden, pictures, targets),
        },
    }
    write("recorded", stored | versions(), folder=Path(__file__).parent)
    print(stored["norms"])
    return 0


@torch.no_grad()
def _rounded(parameter: Tensor) -> float:
    """Round a parameter to bytes in place; return the value of one unit."""
    scale = float(parameter.abs().max()) / 127
    parameter.copy_((parameter / scale).round() * scale)
    return scale


def _bytes(parameter: Tensor, scale: float) -> Tensor:
    return (parameter.detach() / scale).round().to(torch.int8)


def _coded(values: Tensor) -> str:
    return base64.b64encode(values.numpy().tobytes()).decode()


def _norms(model: nn.Module, pictures: Tensor, targets: Tensor) -> list[float]:
    """Return the length of each picture's gradient, by autograd."""
    found = []
    for picture, target in zip(pictures, targets, strict=True):
        loss = F.cross_entropy(model(picture[None]), target[None])
        gradients = torch.autograd.grad(loss, list(model.parameters()))
        squares = sum(float(g.double().square().sum()) for g in gradients)
        found.append(squares**0.5)
    return found


if __name__ == "__main__":
    sys.exit(main())
