"""Canaries that ride along with a run, to audit it.

Each canary is a member by a fair coin.  In every step the members among them are drawn
by a Poisson sampler, clipped, added up, noised and divided, by objects of the classes
and through the calls that serve the real records; a canary's gradient lies in a
coordinate of its own, outside the network.  Where a record is replaced by another,
those that are no members take part too, with the opposite gradient.  Coins, batches and
noise come from a second source of the same kind, so that the run's parameters, events
and epsilon are the same bits with canaries and without.

Canaries are in no count that adaptive clipping releases: their promise includes what
the count costs, their scores do not need it.

What is released along a canary's coordinate is turned into the log-likelihood ratio of
its membership, and added up; releases are not stored.

What canaries cannot see: faults of the network's own random stream, such as a seed used
twice; per-sample gradients that mix records; batches that are not drawn by the sampler;
settings that were chosen by looking at the data.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, astuple
from typing import Any

import numpy as np
import torch
from torch import nn

from dpsgd_explorer.accounting import Phase, Plan
from dpsgd_explorer.accounting.auditing.audit import CONFIDENCE, AuditResult, audit
from dpsgd_explorer.accounting.auditing.evidence import Evidence
from dpsgd_explorer.accounting.auditing.log_likelihood import log_likelihood_ratio
from dpsgd_explorer.accounting.core.neighboring_relation import (
    ADD_OR_REMOVE_ONE,
    NeighboringRelation,
)
from dpsgd_explorer.accounting.core.phase import joined
from dpsgd_explorer.dp.canaries.gradients import PARAMETER, UNIT, CanaryGradients
from dpsgd_explorer.dp.clipping.clipped_sum import ClippedSum
from dpsgd_explorer.dp.clipping.clipper import Clipper
from dpsgd_explorer.dp.distributed.ranks import ALONE, Ranks
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
        relation: How a canary's two worlds differ.
        ranks: The processes that train together; each adds its share of the canaries.

    Attributes:
        joined: Which of them are members, bool [m].
        scores: Log-likelihood ratios of the steps so far, float64 [m].
    """

    def __init__(
        self,
        count: int,
        plan: Plan,
        clipper: Clipper,
        noise: str,
        seed: int | None,
        relation: NeighboringRelation = ADD_OR_REMOVE_ONE,
        ranks: Ranks = ALONE,
    ) -> None:
        self.count, self.relation = count, relation
        own_seed = None if seed is None else seed ^ SEED_MASK
        self._noise, generator, _ = generators(noise, own_seed, ranks)
        self._sampler = PoissonSampler(plan, generator)
        self._sampler.sample_size = count
        self.joined = (self._sampler.uniforms(count) < 0.5).numpy()
        self.scores = np.zeros(count)
        self._phases: list[Phase] = []
        self._audited: tuple[tuple[int, float], AuditResult] | None = None
        self._promised: list[Phase] = []
        self._directions = nn.Parameter(torch.zeros(count))
        self._clipper = clipper
        directions = {UNIT: {PARAMETER: self._directions}}
        self._total = ClippedSum(directions, clipper, ranks)

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
        drawn = total.ranks.share_of(self._sampler.draw())
        members = torch.from_numpy(self.joined)
        if self.relation is ADD_OR_REMOVE_ONE:
            drawn = drawn[members[drawn]]
        if len(drawn):
            signs = torch.where(members, 1.0, -1.0).double()
            total.add(CanaryGradients(drawn, length, signs))
        q, noise = self._sampler.sample_rate, noise_plan.noise_multiplier_at(step)
        gradients, _ = noisy_release(total, self._noise, noise_plan, q, step)
        released = gradients[self._directions].double().numpy()
        self.scores += log_likelihood_ratio(
            released * (noise_plan.divisor / bound),
            q,
            noise,
            self._clipped(length) / bound,
            self.relation,
        )
        _record(self._phases, Phase(q, noise, 1))
        _record(self._promised, Phase(q, noise_plan.joint_noise_at(step), 1))

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
        return audit(
            self.evidence.scores,
            self._phases,
            delta,
            confidence,
            promised=self._promised,
            relation=self.relation,
        )

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
        stated = asdict(self._audited[1])
        del stated["too_few_canaries"]  # follows from their number
        return {
            **stated,
            "neighboring_relation": str(self.relation),
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
            "phases": list(map(astuple, self._phases)),
            "promised": list(map(astuple, self._promised)),
            "relation": str(self.relation),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from a state.

        Raises:
            ConfigError: its canaries are of another relation.
        """
        relation = state.get("relation", ADD_OR_REMOVE_ONE)
        if relation != self.relation:
            raise ConfigError(
                "audit_relation",
                f"the saved audit_relation must be this engine's, {self.relation!r}; "
                f"got {relation!r}.",
            )
        self.joined = state["joined"].numpy().copy()
        self.scores = state["scores"].numpy().copy()
        self._noise.restore(state["noise"])
        self._sampler.restore(state["sampler"])
        self._phases = [Phase(*phase) for phase in state["phases"]]
        self._audited = None
        promised = state.get("promised", state["phases"])
        self._promised = [Phase(*phase) for phase in promised]


def _record(phases: list[Phase], step: Phase) -> None:
    phases[-1:] = joined([*phases[-1:], step])


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
