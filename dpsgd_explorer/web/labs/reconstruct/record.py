"""Recording of the images and models of the reconstruction lab.

    python -m dpsgd_explorer.web.labs.reconstruct.record

Writes ``recorded.json`` into this folder:

- the first training image of each of some labels, as bytes;
- a network with one hidden layer as initialised by torch, its weights rounded to bytes;
- the norm of each image's gradient by autograd, for this network and for a linear model
  with zero weights, as a check on the arithmetic in the browser.
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
    """Selects the images, build both models, and write the file."""
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
    """Rounds a parameter to bytes in place and return the value of one unit."""
    scale = float(parameter.abs().max()) / 127
    parameter.copy_((parameter / scale).round() * scale)
    return scale


def _bytes(parameter: Tensor, scale: float) -> Tensor:
    return (parameter.detach() / scale).round().to(torch.int8)


def _coded(values: Tensor) -> str:
    return base64.b64encode(values.numpy().tobytes()).decode()


def _norms(model: nn.Module, pictures: Tensor, targets: Tensor) -> list[float]:
    """Returns the norm of each image's gradient, by autograd."""
    norms = []
    for picture, target in zip(pictures, targets, strict=True):
        loss = F.cross_entropy(model(picture[None]), target[None])
        gradients = torch.autograd.grad(loss, list(model.parameters()))
        squares = sum(float(g.double().square().sum()) for g in gradients)
        norms.append(squares**0.5)
    return norms


if __name__ == "__main__":
    sys.exit(main())
