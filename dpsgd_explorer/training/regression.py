"""Noisy gradient descent as a run, which yields events.

``RegressionExperiment`` can stop after any event and resume from its checkpoint.  A
resumed run yields the events of an uninterrupted run, bit for bit except for times.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from dpsgd_explorer.errors import DivergedError
from dpsgd_explorer.experiments.california_housing import housing
from dpsgd_explorer.experiments.events import NOT_PRIVATE, Event
from dpsgd_explorer.experiments.experiment import Experiment
from dpsgd_explorer.experiments.regression_config import RegressionConfig
from dpsgd_explorer.regression.comparison import Spread


class RegressionExperiment(Experiment):
    """One run of noisy gradient descent and its state; see ``Experiment``."""

    config: RegressionConfig

    def _prepare(self) -> None:
        housing_data = self.config.prepared_housing
        self._statistics = housing_data.statistics
        self._evaluation_set = housing_data.evaluation_set
        # n is treated as public, as in the lab.
        self._descent = replace(self.config.spec.descent, delta=self.config.delta)
        self._rng = np.random.default_rng(self.config.seed)
        repetitions = self.config.repetitions
        self._rates = self._descent.draw_rates(self._statistics, self._rng, repetitions)
        self._theta = np.zeros((repetitions, self._statistics.dim))

    def _state(self) -> dict[str, Any]:
        return {
            "theta": self._theta.tolist(),
            "generator": self._rng.bit_generator.state,
        }

    def _load_state(self, state: dict[str, Any]) -> None:
        self._theta = np.array(state["theta"])
        self._rng.bit_generator.state = state["generator"]

    def _advance(self) -> None:
        """Descends to the next evaluated step and emits its events."""
        end = next(step for step in self._points if step > self._step)
        self._theta = self._descent.advance(
            self._statistics, self._theta, self._rates, end - self._step, self._rng
        )
        self._step = end
        errors = self._evaluation_set.mse_of(self._theta)
        diverged = int(np.isinf(errors).sum())
        if diverged == len(errors):
            raise DivergedError(
                f"the run diverged: by step {self._step} no repetition had finite "
                f"numbers any more. Lower learning_rate (it is {self._rate:.3g}) or "
                "rate_factor."
            )
        measured = _measured(Spread.of(errors))
        self._emit("step", diagnostics={"diverged": diverged, **self._norms()})
        self._emit("evaluation", **measured)
        if self._step == self._descent.steps:
            self._emit("end", delta=self.config.delta, **measured, reason="finished")
            self._ended = True

    @property
    def _rate(self) -> float:
        """Median of the learning rates of the repetitions."""
        return float(np.median(self._rates))

    @property
    def _points(self) -> list[int]:
        return self.config.evaluation_steps

    def _norms(self) -> dict[str, float | None]:
        """Returns the norm of the coefficients and the noise std per coordinate."""
        with np.errstate(over="ignore", invalid="ignore"):
            norm = np.median(np.linalg.norm(self._theta, axis=1))
            sensitivity = self.config.bounds.gradient_sensitivity(norm)
        noise = self._descent.noise_multiplier * float(sensitivity)
        return {"theta_norm": _finite(float(norm)), "noise_std": _finite(noise)}

    def _epsilon(self) -> float | None:
        [epsilon] = self._descent.epsilons([self._step])
        return epsilon

    def _phase(self) -> Event:
        config, descent = self.config, self._descent
        return Event(
            "phase",
            {
                "step": 0,
                "sample_rate": 1.0,
                "noise_multiplier": descent.noise_multiplier,
                "expected_batch_size": housing.SIZE,
                "steps": descent.steps,
                "sample_size": housing.SIZE,
                "delta": config.delta,
                "neighboring_relation": config.neighboring_relation,
                "status": NOT_PRIVATE if config.uses_private_rate else "exact",
                "private": True,
                "learning_rate": self._rate,
                "learning_rate_is_private": not config.uses_private_rate,
                "rate_noise_multiplier": descent.rate_noise_multiplier,
                "repetitions": config.repetitions,
                "nonprivate_mse": self._evaluation_set.mse,
                "trivial_mse": self._evaluation_set.trivial_mse,
            },
        )


def _measured(spread: Spread) -> dict[str, float | None]:
    return {
        "mse_median": _finite(spread.median),
        "mse_low": _finite(spread.low),
        "mse_high": _finite(spread.high),
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
