"""The clipped sums of this library, Opacus and FastDP on models with a known answer.

Each model is given to each library without noise.  Where records are independent, the
clipped sum must equal the result of one backward pass per record.  Where a layer mixes
records, no sum is right: the library must raise an error, or one record moves the sum
by more than two clipping bounds.

Needs Opacus, and a checkout of FastDP on PYTHONPATH (it is in no package index).
"""

from __future__ import annotations

import copy
import importlib
import warnings
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from io import StringIO
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.optim import Optimizer
from torch.utils.data import DataLoader, TensorDataset

from benchmarks import record
from dpsgd_explorer.dp import PrivacyEngine
from tools.marked_text import markdown_table

BATCH, CLASSES, WIDTH = 8, 3, 6
CLIPPING_BOUND = 0.5  # about half of the records are clipped
TOLERANCE = 1e-3  # relative; Opacus and FastDP add 1e-6 to each norm

Data = tuple[Tensor, Tensor]
Library = Callable[[nn.Module, Optimizer, Data], None]


class Shared(nn.Module):
    """Uses one linear layer twice."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.head = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        """Maps (B, 6) to (B, 3)."""
        scores: Tensor = self.head(torch.tanh(self.layer(torch.tanh(self.layer(x)))))
        return scores


class Tied(nn.Module):
    """Shares the embedding's weight with the output layer."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(CLASSES, WIDTH)
        self.head = nn.Linear(WIDTH, CLASSES, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, ids: Tensor) -> Tensor:
        """Maps (B, T) to (B, 3)."""
        scores: Tensor = self.head(self.embedding(ids).mean(1))
        return scores


class Bare(nn.Module):
    """Has a parameter that belongs to no layer."""

    def __init__(self) -> None:
        super().__init__()
        self.scale, self.head = nn.Parameter(torch.ones(WIDTH)), _head()

    def forward(self, x: Tensor) -> Tensor:
        """Maps (B, 6) to (B, 3)."""
        scores: Tensor = self.head(x * self.scale)
        return scores


class LastState(nn.Module):
    """Classifies the last state of torch's own LSTM."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.head = nn.LSTM(WIDTH, WIDTH, batch_first=True), _head()

    def forward(self, x: Tensor) -> Tensor:
        """Maps (B, T, 6) to (B, 3)."""
        scores: Tensor = self.head(self.lstm(x)[0][:, -1])
        return scores


def _head(width: int = WIDTH) -> nn.Linear:
    return nn.Linear(width, CLASSES)


def _after_linear(*layers: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Linear(WIDTH, WIDTH), *layers, _head())


def _convolution(**options: Any) -> nn.Module:
    layer = nn.Conv2d(2, 4, 3, **options)
    return nn.Sequential(
        layer, nn.Tanh(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), _head(4)
    )


def _volume() -> nn.Module:
    layers = nn.Conv3d(1, 4, 2), nn.Tanh(), nn.AdaptiveAvgPool3d(1), nn.Flatten()
    return nn.Sequential(*layers, _head(4))


def _padded() -> nn.Module:
    embedding = nn.Embedding(CLASSES, WIDTH, padding_idx=0)
    return nn.Sequential(embedding, nn.Flatten(), _head(4 * WIDTH))


#: label: model, shape of an input (None: four ids), and True if it mixes records
MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...] | None, bool]] = {
    "linear layers": (lambda: _after_linear(nn.Tanh()), (WIDTH,), False),
    "`nn.ReLU(inplace=True)`": (
        lambda: _after_linear(nn.ReLU(inplace=True)),
        (WIDTH,),
        False,
    ),
    "`nn.LayerNorm(bias=False)`": (
        lambda: _after_linear(nn.LayerNorm(WIDTH, bias=False)),
        (WIDTH,),
        False,
    ),
    "convolution, groups": (lambda: _convolution(groups=2), (2, 6, 6), False),
    "convolution, circular padding": (
        lambda: _convolution(padding=1, padding_mode="circular"),
        (2, 6, 6),
        False,
    ),
    "3-D convolution": (_volume, (1, 4, 4, 4), False),
    "embedding with `padding_idx`": (_padded, None, False),
    "`nn.LSTM`": (LastState, (4, WIDTH), False),
    "one layer used twice": (Shared, (WIDTH,), False),
    "tied weights": (Tied, None, False),
    "parameter outside a layer": (Bare, (WIDTH,), False),
    "batch normalization": (
        lambda: _after_linear(nn.BatchNorm1d(WIDTH)),
        (WIDTH,),
        True,
    ),
    "batch normalization, `affine=False`": (
        lambda: _after_linear(nn.BatchNorm1d(WIDTH, affine=False)),
        (WIDTH,),
        True,
    ),
}


def _ours(model: nn.Module, optimizer: Optimizer, data: Data) -> None:
    engine = PrivacyEngine(
        model, batch_size=BATCH, sample_size=BATCH, steps=1, noise_multiplier=0,
        max_grad_norm=CLIPPING_BOUND, clipping_fn="Abadi", sampling="unchecked",
    )  # fmt: skip
    engine.attach(optimizer)
    cross_entropy(model(data[0]), data[1]).backward()  # type: ignore[no-untyped-call]
    optimizer.step()


def _opacus(mode: str) -> Library:
    def step(model: nn.Module, optimizer: Optimizer, data: Data) -> None:
        loader = DataLoader(TensorDataset(*data), batch_size=BATCH)
        private = importlib.import_module("opacus").PrivacyEngine().make_private(
            module=model, optimizer=optimizer, data_loader=loader,
            criterion=nn.CrossEntropyLoss(), noise_multiplier=0.0,
            max_grad_norm=CLIPPING_BOUND, poisson_sampling=False,
            grad_sample_mode=mode,
        )  # fmt: skip
        criterion = private[2] if mode == "ghost" else cross_entropy
        criterion(private[0](data[0]), data[1]).backward()
        private[1].step()

    return step


def _fastdp(model: nn.Module, optimizer: Optimizer, data: Data) -> None:
    engine = importlib.import_module("fastDP").PrivacyEngine(
        model, batch_size=BATCH, sample_size=2 * BATCH, epochs=1, noise_multiplier=0.0,
        max_grad_norm=CLIPPING_BOUND, clipping_fn="Abadi",
    )  # fmt: skip
    engine.attach(optimizer)
    cross_entropy(model(data[0]), data[1]).backward()  # type: ignore[no-untyped-call]
    optimizer.step()


LIBRARIES: dict[str, tuple[str, Library]] = {
    "hooks": ("this library", _ours),
    "opacus_hooks": ("Opacus, hooks", _opacus("hooks")),
    "opacus_ghost": ("Opacus, ghost", _opacus("ghost")),
    "fastdp": ("FastDP, hooks", _fastdp),
}


def clipped_sum(library: Library, model: nn.Module, data: Data) -> Tensor:
    """Returns a library's clipped sum of a batch, all parameters in one vector."""
    model = copy.deepcopy(model)
    trained = list(model.parameters())
    library(model, torch.optim.SGD(trained, lr=0.0), data)
    gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in trained]
    return BATCH * torch.cat([g.flatten() for g in gradients]).detach()


def by_record(model: nn.Module, data: Data) -> Tensor:
    """Returns the clipped sum by one backward pass per record."""
    model = copy.deepcopy(model)
    total = torch.zeros(sum(p.numel() for p in model.parameters()))
    for x, y in zip(*data, strict=True):
        gradients = torch.autograd.grad(
            cross_entropy(model(x[None]), y[None]), list(model.parameters())
        )
        gradient = torch.cat([g.flatten() for g in gradients])
        total += gradient * min(1.0, CLIPPING_BOUND / gradient.norm().item())
    return total


def outcome(name: str, library: Library) -> dict[str, Any]:
    """Returns how a library treats a model: "raises", "right", "wrong" or "mixed".

    With "wrong" comes the relative error of the sum, with "mixed" how far the
    replacement of one record moves it, over the limit of two clipping bounds.
    """
    make, shape, is_mixed = MODELS[name]
    torch.manual_seed(1)
    model, targets = make(), torch.arange(BATCH) % CLASSES
    x = (
        torch.randint(CLASSES, (BATCH, 4))
        if shape is None
        else torch.randn(BATCH, *shape)
    )
    try:
        found = clipped_sum(library, model, (x, targets))
        if is_mixed:
            other = x.clone()
            other[0] *= 30
            moved = clipped_sum(library, model, (other, targets)) - found
            return {"outcome": "mixed", "value": _over_limit(moved)}
    except Exception as error:  # each library raises its own; the text is recorded
        return {"outcome": "raises", "error": f"{type(error).__name__}: {error}"[:200]}
    wanted = by_record(model, (x, targets))
    value = ((found - wanted).norm() / wanted.norm()).item()
    return {"outcome": "right" if value <= TOLERANCE else "wrong", "value": value}


def _over_limit(moved: Tensor) -> float:
    return float(moved.norm()) / (2 * CLIPPING_BOUND)


def measure() -> Iterator[dict[str, Any]]:
    """Yields one row for each model and library."""
    for name in MODELS:
        for key, (_, library) in LIBRARIES.items():
            with warnings.catch_warnings(), redirect_stdout(StringIO()):
                warnings.simplefilter("ignore")
                row = outcome(name, library)
            yield {"model": name, "library": key, **row}


def main() -> None:
    """Measures all models and writes the results."""
    fastdp = importlib.import_module("fastDP").__version__
    rows = list(measure())
    for row in rows:
        print(row)
    print(record.write("peers", {"threads": 1, "fastdp": fastdp, "rows": rows}))


def table(results: dict[str, Any]) -> str:
    """Returns the table of docs/explanation/comparison.md."""
    rows = {(row["model"], row["library"]): row for row in results["rows"]}
    labels = [label for label, _ in LIBRARIES.values()]
    models = (
        [name, *(_cell(rows[name, library]) for library in LIBRARIES)]
        for name in MODELS
    )
    origin = f"{record.described(results)} FastDP {results['fastdp']}."
    return f"{origin}\n\n{markdown_table(['model', *labels], models)}"


def _cell(row: dict[str, Any]) -> str:
    if row["outcome"] in ("raises", "right"):
        return {"raises": "error", "right": "right"}[row["outcome"]]
    if row["outcome"] == "wrong":
        return f"**wrong by {row['value']:.0%}, no error**"
    return f"**trains; one record moves {row['value']:.1f} × the limit**"
