"""One private training, and the accuracy of its averaged parameters."""

from __future__ import annotations

import time
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn, optim
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.accuracy.cases import DELTA, Case, Settings
from benchmarks.accuracy.wide_scattering import WideScattering
from dpsgd_explorer import dp
from dpsgd_explorer.training.datasets.registry import Records, load
from dpsgd_explorer.training.models import tanh_cnn

MOMENTUM = 0.9
#: Groups of 3 of the 81 channels of a picture, each normalized over the picture.
GROUPS = 27
#: Pictures per computation of features and of predictions.
CHUNK = 32
CHUNK_PREDICTIONS = 1000


@dataclass(frozen=True)
class Examples:
    """Inputs of a model, [N, …], and the class of each, [N]."""

    inputs: Tensor
    targets: Tensor

    def take(self, rows: Tensor) -> Examples:
        """Returns some of the examples."""
        return Examples(self.inputs[rows], self.targets[rows])


@dataclass(frozen=True)
class Result:
    """The result of a training.

    Attributes:
        accuracy: Accuracy of the averaged parameters, in percent.
        epsilon: ε of the training at δ = 1e-5, rounded up.
        seconds: CPU seconds of the training.
    """

    accuracy: float
    epsilon: float
    seconds: float


def examples_of(case: Case) -> tuple[Examples, Examples]:
    """Returns the training and the test records of a case, as inputs of its model."""
    records = load(case.dataset)
    if case.model == "cnn":
        train, test = (Examples(part.inputs, part.targets) for part in records)
    else:
        train, test = (_features(part) for part in records)
    return train, test


def _features(records: Records) -> Examples:
    transform = WideScattering(records.inputs.shape[-1])
    chunks = (
        F.group_norm(transform(chunk[:, 0]), GROUPS).flatten(1).half()
        for chunk in torch.split(records.inputs, CHUNK)
    )
    return Examples(torch.cat(list(chunks)), records.targets)


def train(
    case: Case, settings: Settings, train: Examples, test: Examples, seed: int
) -> Result:
    """Trains privately, and tests.

    Args:
        case: The case, which has ε.
        settings: The settings.
        train: Training records.
        test: Records of the test.
        seed: Seed of initialization, sampling and noise.
    """
    before = time.process_time()
    torch.manual_seed(seed)
    model = _model(case, train)
    optimizer = optim.SGD(
        model.parameters(), lr=settings.learning_rate, momentum=MOMENTUM
    )
    run = dp.make_private(
        model,
        optimizer,
        (train.inputs, train.targets),
        batch_size=settings.batch_size,
        steps=settings.steps,
        target_epsilon=case.epsilon,
        target_delta=DELTA,
        clipping=dp.Clipping(max_grad_norm=settings.max_grad_norm, fn="Abadi"),
        noise=dp.Noise(kind="seeded", seed=seed),
    )
    average = dp.ParameterAverage(model, settings.average_decay)
    fall = (1 - settings.final_share) / settings.steps
    for epoch in run.epochs():
        for inputs, targets in epoch:
            share = 1 - fall * average.updates
            optimizer.param_groups[0]["lr"] = share * settings.learning_rate
            loss = F.cross_entropy(model(inputs.float()), targets)
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            optimizer.zero_grad()
            average.update()
    run.detach()
    seconds = time.process_time() - before
    with average.in_use():
        accuracy = _accuracy(model, test)
    return Result(accuracy, run.epsilon(), seconds)


def _model(case: Case, train: Examples) -> nn.Module:
    """Returns the model before its training; the linear layer starts from zeros."""
    if case.model == "cnn":
        return tanh_cnn().to(memory_format=torch.channels_last)  # type: ignore[call-overload,no-any-return]
    linear = nn.Linear(train.inputs.shape[1], int(train.targets.max()) + 1)
    nn.init.zeros_(linear.weight)
    nn.init.zeros_(linear.bias)
    return linear


@torch.no_grad()
def _accuracy(model: nn.Module, test: Examples) -> float:
    """Returns the accuracy in percent."""
    batches = DataLoader(TensorDataset(test.inputs, test.targets), CHUNK_PREDICTIONS)
    hits = 0
    for inputs, targets in batches:
        hits += int((model(inputs.float()).argmax(1) == targets).sum())
    return 100 * hits / len(test.targets)
