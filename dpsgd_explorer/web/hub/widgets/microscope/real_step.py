"""One recorded step of a network, by norms, since a plane would distort its gradients.

Noise of standard deviation σC in each of d dimensions has norm σC√d, with a relative
deviation of about 1/√(2d).  It is nearly orthogonal to the sum, so the squared norm of
the noisy sum is the sum of both squared norms.
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
    """Recorded values of one step.

    Attributes:
        config: Settings of the run.
        stored: Contents of the file: ``lengths`` of all gradients, longest first;
            ``true``, the norm of their sum; and for each of ``bounds`` the norm of the
            sum of ``clipped`` gradients and its angle to the true sum in ``degrees``.
    """

    config: TrainingConfig
    stored: dict[str, Any]

    @property
    def cut(self) -> int:
        """Number of gradients that the run's C clips."""
        return sum(
            length > self.config.max_grad_norm for length in self.stored["lengths"]
        )

    @property
    def clipped(self) -> float:
        """Norm of the clipped sum at the run's C."""
        bound_index = self.stored["bounds"].index(self.config.max_grad_norm)
        return float(self.stored["clipped"][bound_index])

    @property
    def noise(self) -> float:
        """Norm of the noise at the run's C, σC√d."""
        spread = self.config.plan.noise_multiplier * self.config.max_grad_norm
        return spread * math.sqrt(self.stored["parameters"])


@cache
def real_step() -> RealStep:
    """Returns the recorded step."""
    stored = recording("recorded", Path(__file__).parent)
    return RealStep(TrainingConfig.parse(stored["config"]), stored)


def settings() -> str:
    """Returns the run and the step, in words."""
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
    """Returns the values of the step at the run's C, for pages without script."""
    step = real_step()
    drawn = len(step.stored["lengths"])
    return (
        f"In a real network C = {step.config.max_grad_norm:g} cuts {step.cut} of "
        f"{drawn} gradients. Noise of σC on each of {step.stored['parameters']:,} "
        f"parameters is {nearest(step.noise, 1)} long in all, "
        f"{nearest(step.noise / step.clipped, 1)} times as long as the clipped sum."
    )


def data() -> dict[str, Any]:
    """Returns the recorded norms and the settings of the step."""
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
