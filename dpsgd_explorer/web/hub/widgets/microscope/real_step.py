"""One step of a recorded run of a network: lengths only, since no plane is true of it.

Noise of standard deviation σC in each of d directions has length σC√d, to within
about 1/√(2d) of that, and it is nearly at right angles to the sum that it is added to:
so the noisy sum is as long as the hypotenuse of both.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from dpsgd_explorer.experiments.catalogue import MODELS
from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.web.questions.rounding import nearest
from dpsgd_explorer.web.recorded.files import recording


@dataclass(frozen=True)
class RealStep:
    """What was recorded of one step.

    Attributes:
        config: Settings of the run.
        stored: The file: ``lengths`` of all gradients, longest first; ``true``, the
            length of their sum; and for each of ``bounds`` the length of the sum of
            the ``clipped`` gradients and its angle to the true one in ``degrees``.
    """

    config: TrainingConfig
    stored: dict[str, Any]

    @property
    def cut(self) -> int:
        """Gradients that the run's own C shortens."""
        return sum(one > self.config.max_grad_norm for one in self.stored["lengths"])

    @property
    def clipped(self) -> float:
        """Length of the clipped sum at the run's own C."""
        at = self.stored["bounds"].index(self.config.max_grad_norm)
        return float(self.stored["clipped"][at])

    @property
    def noise(self) -> float:
        """Length of the noise at the run's own C, σC√d."""
        spread = self.config.plan.noise_multiplier * self.config.max_grad_norm
        return spread * math.sqrt(self.stored["parameters"])


@cache
def real_step() -> RealStep:
    """Return the recorded step."""
    stored = recording("recorded", Path(__file__).parent)
    return RealStep(TrainingConfig.parse(stored["config"]), stored)


def settings() -> str:
    """Return of which run and step it is, in words."""
    step = real_step()
    config, stored = step.config, step.stored
    return (
        f"{config.data.label}, {MODELS[config.model].label.lower()} with "
        f"{stored['parameters']:,} parameters: step {stored['step']} of "
        f"{config.plan.steps}, {len(stored['lengths'])} records drawn, "
        f"{config.expected_batch_size} expected, "
        f"σ\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}"
        f"{nearest(config.plan.noise_multiplier)}"
    )


def summary() -> str:
    """Return what the step shows at the run's own C, for pages without script."""
    step = real_step()
    drawn = len(step.stored["lengths"])
    return (
        f"In a real network C = {step.config.max_grad_norm:g} cuts {step.cut} of "
        f"{drawn} gradients. Noise of σC on each of {step.stored['parameters']:,} "
        f"parameters is {nearest(step.noise, 1)} long in all, "
        f"{nearest(step.noise / step.clipped, 1)} times as long as the clipped sum."
    )


def data() -> dict[str, Any]:
    """Return the recorded lengths and what the step was made with."""
    step = real_step()
    stored = {
        name: step.stored[name]
        for name in ("parameters", "lengths", "true", "bounds", "clipped", "degrees")
    }
    return stored | {
        "expected": step.config.expected_batch_size,
        "bound": step.config.max_grad_norm,
        "noise_multiplier": round(step.config.plan.noise_multiplier, 6),
        "settings": settings(),
    }
