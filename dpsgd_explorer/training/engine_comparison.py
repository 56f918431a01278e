"""A comparison of the engines, as a run.

Each step measures one contender: an engine, or training without privacy.
``EngineComparison`` can stop after any event and resume from its checkpoint.  The
differences of gradients are reproducible; time and memory are measured again.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dpsgd_explorer.dp.engines.norm_choice import NormChoice
from dpsgd_explorer.dp.noise.seeded import seeded_generator
from dpsgd_explorer.errors import UnsupportedModuleError
from dpsgd_explorer.experiments.engines_config import (
    CONTENDERS,
    ORDINARY,
    EnginesConfig,
)
from dpsgd_explorer.experiments.events import NOT_PRIVATE, Event
from dpsgd_explorer.experiments.experiment import Experiment
from dpsgd_explorer.experiments.training_config import HOLDS_GRADIENTS, MOST_HELD_BYTES
from dpsgd_explorer.training import models
from dpsgd_explorer.training.cpu.threads import threads
from dpsgd_explorer.training.timing import (
    Step,
    Timing,
    attached,
    machine,
    ordinary_step,
    peak_bytes,
    private_step,
    time_in_turns,
)

#: Approximate CPU time for timing one contender, in seconds.
TIMING_SECONDS = 0.5
#: Seed of parameters and inputs.
SEED = 0

#: Shape of one input, True for token ids, number of classes.
Shapes = tuple[tuple[int, ...], bool, int]

BUILDERS: dict[str, Callable[[int], nn.Module]] = {
    "mlp": lambda width: models.perceptron(784, width, width, 10),
    "cnn": models.two_convolutions,
    "lstm": models.LastStateClassifier,
    "transformer": models.TransformerClassifier,
}
INPUTS: dict[str, Callable[[int], Shapes]] = {
    "mlp": lambda length: ((784,), False, 10),
    "cnn": lambda length: ((3, 32, 32), False, 10),
    "lstm": lambda length: ((length,), True, 2),
    "transformer": lambda length: ((length,), True, 2),
}


class EngineComparison(Experiment):
    """One comparison and its state; see ``Experiment``."""

    checkpoint_version = 2
    config: EnginesConfig

    def _prepare(self) -> None:
        self._gradients: list[list[Tensor]] = []
        self._largest: float | None = None

    @contextmanager
    def _computing(self) -> Iterator[None]:
        with threads(1), warnings.catch_warnings():
            # torch.vmap warns that it computes some operations slowly.
            warnings.simplefilter("ignore", UserWarning)
            yield

    def _state(self) -> dict[str, Any]:
        return {}

    def _load_state(self, state: dict[str, Any]) -> None:
        # Gradients are computed again, because they are too large for a checkpoint.
        for name in CONTENDERS[: self._step]:
            with threads(1), suppress(UnsupportedModuleError):
                if not self._reason_to_skip(name):
                    self._compared(name)

    def _advance(self) -> None:
        """Measures the next contender and emits its figures."""
        name = CONTENDERS[self._step]
        figures = self._figures(name)
        self._step += 1
        self._emit("step", diagnostics={})
        self._emit("evaluation", engine=name, **figures)
        if self._step == len(CONTENDERS):
            end = {"difference": self._largest, "reason": "finished"}
            self._emit("end", delta=None, **end)
            self._ended = True

    def _figures(self, name: str) -> dict[str, Any]:
        """Returns the figures of one contender, or the reason why it has none."""
        figures: dict[str, Any] = dict.fromkeys(
            ("milliseconds", "ratio", "ratio_low", "ratio_high", "peak_bytes")
        )
        refused = self._reason_to_skip(name)
        difference: float | None = None
        layers: list[dict[str, Any]] = []
        if not refused:
            try:
                difference = self._compared(name)
                choices, step = self._step_of(name)
                figures["peak_bytes"] = peak_bytes(step.run)
                layers = [_choice(choice) for choice in reversed(choices())]
                figures |= _times(self._timed(name, step))
            except UnsupportedModuleError as error:
                refused = str(error)
        figures |= {"difference": difference, "refused": refused, "layers": layers}
        return figures

    def _reason_to_skip(self, name: str) -> str:
        config = self.config
        held_bytes = 8 * config.batch_size * config.parameters
        if name != HOLDS_GRADIENTS or held_bytes <= MOST_HELD_BYTES:
            return ""
        return (
            f"{name} stores the gradients of all samples together: "
            f"{held_bytes / 2**30:.1f} GiB in double precision. The limit of this "
            f"comparison is {MOST_HELD_BYTES / 2**30:.0f} GiB. Use a smaller "
            "batch or width."
        )

    def _compared(self, name: str) -> float | None:
        """Returns the largest difference from the gradients of earlier engines.

        It is the largest difference of two entries, divided by the largest entry, in
        float64 and without noise; None for the first engine and without privacy.
        """
        if name == ORDINARY:
            return None
        gradients = self._gradients_of(name)
        largest = max(float(gradient.abs().max()) for gradient in gradients)
        differences = [
            _difference(gradients, other) / largest for other in self._gradients
        ]
        self._gradients.append(gradients)
        if not differences:
            return None
        self._largest = max(self._largest or 0.0, *differences)
        return max(differences)

    def _gradients_of(self, name: str) -> list[Tensor]:
        """Returns the clipped mean gradient of each parameter, float64."""
        model, (x, y) = self._model().double(), self._data()
        x = x.double() if x.is_floating_point() else x
        _, optimizer = attached(model, len(y), name, noise_multiplier=0.0)
        F.cross_entropy(model(x), y).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        return [p.grad for p in model.parameters() if p.grad is not None]

    def _step_of(self, name: str) -> tuple[Callable[[], list[NormChoice]], Step]:
        """Returns a contender's step, and a function that lists its norm methods."""
        if name == ORDINARY:
            return list, ordinary_step(self._model(), self._data())
        engine, step = private_step(self._model(), self._data(), name)
        return engine.explain, step

    def _timed(self, name: str, step: Step) -> Timing:
        if name == ORDINARY:
            return time_in_turns({name: step}, TIMING_SECONDS)[name]
        ordinary = ordinary_step(self._model(), self._data())
        return time_in_turns({ORDINARY: ordinary, name: step}, TIMING_SECONDS)[name]

    def _model(self) -> nn.Module:
        """Returns a new model with reproducible parameters."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(SEED)
            return BUILDERS[self.config.model](self.config.width)

    def _data(self) -> tuple[Tensor, Tensor]:
        """Returns random inputs and targets, which are reproducible."""
        config = self.config
        sample_shape, are_ids, classes = INPUTS[config.model](config.sequence_length)
        generator = seeded_generator(SEED, "inputs")
        shape = (config.batch_size, *sample_shape)
        if are_ids:
            x = torch.randint(0, models.VOCABULARY, shape, generator=generator)
        else:
            x = torch.randn(shape, generator=generator)
        return x, torch.randint(0, classes, shape[:1], generator=generator)

    def _phase(self) -> Event:
        settings = {"sample_rate": 1.0, "noise_multiplier": None, "status": NOT_PRIVATE}
        sizes = {"parameters": self.config.parameters, "steps": len(CONTENDERS)}
        versions = {"machine": machine() | {"torch": torch.__version__}}
        data = {"step": 0, "private": False} | settings | sizes | versions
        return Event("phase", data)

    def _epsilon(self) -> float | None:
        return None


def _difference(gradients: list[Tensor], other: list[Tensor]) -> float:
    pairs = zip(gradients, other, strict=True)
    return max(float((a - b).abs().max()) for a, b in pairs)


def _times(timing: Timing) -> dict[str, float]:
    return {
        "milliseconds": timing.milliseconds,
        "ratio": timing.ratio,
        "ratio_low": timing.low,
        "ratio_high": timing.high,
    }


def _choice(choice: NormChoice) -> dict[str, Any]:
    cost = choice.multiply_adds
    return {
        "layer": choice.layer,
        "kind": choice.kind,
        "way": choice.norm_method,
        "output_shape": list(choice.output_shape),
        "ghost": None if cost is None else cost.ghost,
        "instantiate": None if cost is None else cost.instantiate,
        "reason": choice.reason,
    }
