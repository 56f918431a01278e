"""Canaries that ride along with a run, to audit it.

Each canary is a member by a fair coin.  In every step the members among them are drawn
by a Poisson sampler, clipped, added up, noised and divided, by objects of the classes
and through the calls that serve the real records; a canary's gradient lies in a
coordinate of its own, outside the network.  Coins, batches and noise come from a second
source of the same kind, so that the run's parameters, events and epsilon are the same
bits with canaries and without.

What is released along a canary's coordinate is turned into the log-likelihood ratio of
its membership, and added up; releases are not stored.

What canaries cannot see: faults of the network's own random stream, such as a seed used
twice; per-sample gradients that mix records; batches that are not drawn by the sampler;
settings that were chosen by looking at the data.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
import torch
from torch import nn

from dpsgd_explorer.accounting import Phase, Plan
from dpsgd_explorer.accounting.auditing.audit import CONFIDENCE, AuditResult, audit
from dpsgd_explorer.accounting.auditing.evidence import Evidence
from dpsgd_explorer.accounting.auditing.log_likelihood import log_likelihood_ratio
from dpsgd_explorer.accounting.core.phase import joined
from dpsgd_explorer.dp.canaries.gradients import PARAMETER, UNIT, CanaryGradients
from dpsgd_explorer.dp.clipping.clipped_sum import ClippedSum
from dpsgd_explorer.dp.clipping.clipper import Clipper
from dpsgd_explorer.dp.ledger.noisy_release import noisy_release
from dpsgd_explorer.dp.noise.generators import generators
from dpsgd_explorer.dp.noise.noise_plan import NoisePlan
from dpsgd_explorer.dp.sampling.sampler import PoissonSampler
from dpsgd_explorer.errors import ConfigError

#: Above it the scores alone would take more memory than a small model.
MOST_CANARIES = 1_000_000
#: Length of a canary's gradient over the bound; clipping shortens it to the bound.
LENGTH_RATIO = 1000.0
#: Keeps a gradient of just the longest length included, rounding or not.
INCLUDED_MARGIN = 1e-6
#: Changes the run's seed into that of its canaries.
SEED_MASK = 0x63616E61727921


class Riders:
    """The canaries of one run.

    Args:
        count: Number of canaries, m.
        plan: Rate and steps of the run.
        clipper: Has one group, UNIT, with the bound of the whole gradient.
        noise: A key of NOISES.
        seed: The run's seed; None with secure noise.

    Attributes:
        joined: Which of them are members, bool [m].
        scores: Log-likelihood ratios of the steps so far, float64 [m].
    """

    def __init__(
        self, count: int, plan: Plan, clipper: Clipper, noise: str, seed: int | None
    ) -> None:
        self.count = count
        own_seed = None if seed is None else seed ^ SEED_MASK
        self._noise, generator, _ = generators(noise, own_seed)
        self._sampler = PoissonSampler(plan, generator)
        self._sampler.sample_size = count
        self.joined = (self._sampler.uniforms(count) < 0.5).numpy()
        self.scores = np.zeros(count)
        self._phases: list[Phase] = []
        self._audited: tuple[tuple[int, float], AuditResult] | None = None
        self._directions = nn.Parameter(torch.zeros(count))
        self._clipper = clipper
        self._total = ClippedSum({UNIT: {PARAMETER: self._directions}}, clipper)

    def release(self, noise_plan: NoisePlan, step: int) -> None:
        """Take part in a step: be drawn, clipped, added, noised and divided.

        Args:
            noise_plan: Noise, bound and divisor of each step.
            step: Number of steps released before.
        """
        bound = noise_plan.max_grad_norm_at(step)
        total = self._total
        self._clipper.rescale(bound / noise_plan.sensitivity)
        longest = self._clipper.longest_included * (1 - INCLUDED_MARGIN)
        length = min(LENGTH_RATIO * bound, longest)
        total.reset()
        drawn = self._sampler.draw()
        members = drawn[torch.from_numpy(self.joined)[drawn]]
        if len(members):
            total.add(CanaryGradients(members, length, self.count))
        q, noise = self._sampler.sample_rate, noise_plan.noise_multiplier_at(step)
        gradients, _ = noisy_release(total, self._noise, noise_plan, q, step)
        released = gradients[self._directions].double().numpy()
        self.scores += log_likelihood_ratio(
            released * (noise_plan.divisor / bound),
            q,
            noise,
            self._clipped(length) / bound,
        )
        self._phases[-1:] = joined([*self._phases[-1:], Phase(q, noise, 1)])

    def _clipped(self, length: float) -> float:
        """Return the length to which the clipper shortens a canary's gradient."""
        norms = torch.tensor([length], dtype=torch.float64)
        [factor] = self._clipper.factors({UNIT: norms**2}, norms).values()
        return float(factor) * length

    def audit(self, delta: float, confidence: float) -> AuditResult:
        """Return what the steps so far prove, by rounded scores as in a receipt.

        Raises:
            AccountingError: a number is outside its domain.
        """
        return audit(self.evidence.scores, self._phases, delta, confidence)

    @property
    def evidence(self) -> Evidence:
        """Scores and coins, rounded so that they prove no more than they are."""
        return Evidence.rounded(self.scores, self.joined)

    def receipt(self, delta: float) -> dict[str, Any]:
        """Return the audit with all that its bounds are computed from, as JSON values.

        Args:
            delta: Of the run.
        """
        key = sum(phase.steps for phase in self._phases), delta
        if self._audited is None or self._audited[0] != key:
            self._audited = key, self.audit(delta, CONFIDENCE)
        return {
            **asdict(self._audited[1]),
            "phases": [asdict(phase) for phase in self._phases if phase.steps],
            **self.evidence.as_data(),
        }

    def as_data(self) -> dict[str, Any]:
        """Return tensors and plain values, for ``restore``."""
        return {
            "joined": torch.from_numpy(self.joined.copy()),
            "scores": torch.from_numpy(self.scores.copy()),
            "noise": self._noise.state(),
            "sampler": self._sampler.state(),
            "phases": [
                (phase.sample_rate, phase.noise_multiplier, phase.steps)
                for phase in self._phases
            ],
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from a state."""
        self.joined = state["joined"].numpy().copy()
        self.scores = state["scores"].numpy().copy()
        self._noise.restore(state["noise"])
        self._sampler.restore(state["sampler"])
        self._phases = [Phase(*phase) for phase in state["phases"]]
        self._audited = None


def check_count(count: object, *, is_private: bool, sampling: str) -> None:
    """Raise ConfigError unless a run can have so many canaries.

    Args:
        count: A whole number from 0 on, if all is well.
        is_private: Whether the run has noise.
        sampling: The engine's option.
    """
    if not isinstance(count, int) or isinstance(count, bool):
        raise _refusal(f"must be a whole number; got {count!r}")
    if not 0 <= count <= MOST_CANARIES:
        raise _refusal(f"must be from 0 to {MOST_CANARIES}; got {count!r}")
    if count and not is_private:
        raise _refusal("must be 0 where noise_multiplier is 0: nothing is promised")
    if count and sampling != "poisson":
        raise _refusal(
            f"must be 0 with sampling={sampling!r}: canaries are drawn by the engine's "
            "own sampler, and would audit another one than yours"
        )


def _refusal(rule: str) -> ConfigError:
    return ConfigError("audit", f"audit, the number of canaries, {rule}.")
