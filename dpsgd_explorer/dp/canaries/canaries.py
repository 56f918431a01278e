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

An engine that takes over from another, on the same records, lets the canaries of that
one go on: they keep their coins, and their scores are those of all steps.  Settings
that were chosen in between depend on what the network released, which tells nothing
about canaries: given these settings, scores and thresholds are as if all had been
planned beforehand.

What canaries cannot see: faults of the network's own random stream, such as a seed used
twice; per-sample gradients that mix records; batches that are not drawn by the sampler;
settings that were chosen by looking at the data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, astuple
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from dpsgd_explorer.accounting import Phase, Plan
from dpsgd_explorer.accounting.auditing.audit import (
    CONFIDENCE,
    AuditResult,
    Unscored,
    audit,
)
from dpsgd_explorer.accounting.auditing.changed_run import MOST_PLANS, PlanScores
from dpsgd_explorer.accounting.auditing.evidence import Evidence
from dpsgd_explorer.accounting.auditing.log_likelihood import log_likelihood_ratio
from dpsgd_explorer.accounting.core.intervals import Floats
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
from dpsgd_explorer.validation import whole

#: Above it the scores alone would take more memory than a small model.
MAX_CANARIES = 1_000_000
#: Length of a canary's gradient over the bound; clipping shortens it to the bound.
LENGTH_RATIO = 1000.0
#: Keeps a gradient of just the longest length included, rounding or not.
INCLUDED_MARGIN = 1e-6
#: Changes the run's seed into that of its canaries.
SEED_MASK = 0x63616E61727921


class Canaries:
    """The canaries of one run.

    Args:
        count: Number of canaries, m.
        plan: Rate and steps of the run.
        clipper: Has one group, UNIT, with the bound of the whole gradient.
        noise: A key of NOISES.
        seed: The run's seed; None with secure noise.
        relation: How a canary's two worlds differ.
        ranks: The processes that train together; each adds its share of the canaries.
        earlier: Canaries of the engine before this one, which go on here.

    Attributes:
        count: m.
        relation: As given.
        earlier: As given.
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
        earlier: Canaries | None = None,
    ) -> None:
        self.count, self.relation, self.earlier = count, relation, earlier
        own_seed = None if seed is None else seed ^ SEED_MASK
        self._noise, generator, _ = generators(noise, own_seed, ranks)
        self._sampler = PoissonSampler(plan, generator)
        self._sampler.sample_size = count
        self._joined = (self._sampler.uniforms(count) < 0.5).numpy()
        self._scores = np.zeros(count)
        self._phases: list[Phase] = []
        self._audited: tuple[tuple[object, ...], AuditResult] | None = None
        self._promised: list[Phase] = []
        self._directions = nn.Parameter(torch.zeros(count))
        self._clipper = clipper
        directions = {UNIT: {PARAMETER: self._directions}}
        self._total = ClippedSum(directions, clipper, ranks)

    @property
    def joined(self) -> npt.NDArray[np.bool_]:
        """Which canaries are members, bool [m]."""
        return self._joined if self.earlier is None else self.earlier.joined

    @property
    def scores(self) -> Floats:
        """Log-likelihood ratios of the steps so far, float64 [m]."""
        return self._scores + (0.0 if self.earlier is None else self.earlier.scores)

    @property
    def phases(self) -> list[Phase]:
        """The steps so far, with the noise along a canary's coordinate."""
        before = [] if self.earlier is None else self.earlier.phases
        return joined([*before, *self._phases])

    @property
    def plans(self) -> list[tuple[list[Phase], Floats]]:
        """Steps and scores, float64 [m], of each engine that made steps.

        Those after the ``MOST_PLANS``-th join it.
        """
        before = [] if self.earlier is None else self.earlier.plans
        if not self._phases:
            return before
        own = self._phases, self._scores
        if len(before) < MOST_PLANS:
            return [*before, own]
        phases, scores = before.pop()
        return [*before, (joined([*phases, *own[0]]), scores + own[1])]

    @property
    def promised(self) -> list[Phase]:
        """The same steps as the accountant counts them."""
        before = [] if self.earlier is None else self.earlier.promised
        return joined([*before, *self._promised])

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
        self._scores += log_likelihood_ratio(
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

    def audit(
        self, delta: float, confidence: float, unscored: Sequence[Unscored] = ()
    ) -> AuditResult:
        """Return what the steps so far prove, by rounded scores as in a receipt.

        Args:
            delta: Of the run.
            confidence: Above 0 and below 1.
            unscored: Steps of the run that these canaries did not go through.

        Raises:
            AccountingError: a number is outside its domain.
        """
        evidence, plans = self.evidence, self.plans
        pairs = zip(evidence.plan_scores, plans, strict=False)
        return audit(
            evidence.scores,
            self.phases,
            delta,
            confidence,
            promised=self.promised,
            relation=self.relation,
            unscored=unscored,
            plans=[PlanScores(scores, phases) for scores, (phases, _) in pairs],
        )

    @property
    def evidence(self) -> Evidence:
        """Scores and coins, rounded so that they prove no more than they are."""
        scores = [values for _, values in self.plans] or [self._scores]
        return Evidence.rounded(np.stack(scores), self.joined)

    def receipt(
        self, delta: float, unscored: Sequence[Unscored] = ()
    ) -> dict[str, Any]:
        """Return the audit with all that its bounds are computed from, as JSON values.

        Args:
            delta: Of the run.
            unscored: As for ``audit``.
        """
        phases = self.phases
        key = sum(phase.steps for phase in phases), delta, *unscored
        if self._audited is None or self._audited[0] != key:
            self._audited = key, self.audit(delta, CONFIDENCE, unscored)
        stated = asdict(self._audited[1])
        del stated["too_few_canaries"]  # follows from their number
        return {
            **stated,
            "neighboring_relation": str(self.relation),
            "phases": [asdict(phase) for phase in phases],
            "plans": [sum(x.steps for x in steps) for steps, _ in self.plans],
            "unscored": [asdict(steps) for steps in unscored],
            **self.evidence.as_data(),
        }

    def as_data(self) -> dict[str, Any]:
        """Return tensors and plain values, for ``restore``."""
        return {
            "joined": torch.from_numpy(self.joined.copy()),
            "scores": torch.from_numpy(self._scores.copy()),
            "noise": self._noise.state(),
            "sampler": self._sampler.state(),
            "phases": list(map(astuple, self._phases)),
            "promised": list(map(astuple, self._promised)),
            "relation": str(self.relation),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from a state.

        Raises:
            ConfigError: its canaries are of another relation, or not those of the
                engine before.
        """
        relation = state.get("relation", ADD_OR_REMOVE_ONE)
        if relation != self.relation:
            raise ConfigError(
                "audit_relation",
                f"the saved audit_relation must be this engine's, {self.relation!r}, "
                f"got {relation!r}.",
            )
        coins = state["joined"].numpy().copy()
        if self.earlier is not None and not np.array_equal(coins, self.joined):
            raise ConfigError(
                "audit",
                "the saved canaries must match the canaries of the engine passed as "
                "after=, got others. Restore that engine first.",
            )
        self._joined = coins
        self._scores = state["scores"].numpy().copy()
        self._noise.restore(state["noise"])
        self._sampler.restore(state["sampler"])
        self._phases = [Phase(*phase) for phase in state["phases"]]
        self._audited = None
        promised = state.get("promised", state["phases"])
        self._promised = [Phase(*phase) for phase in promised]


def unscored_reason(
    count: int, relation: NeighboringRelation, earlier: Canaries | None
) -> str:
    """Return why the canaries of an earlier engine cannot go on; "" if they can.

    Args:
        count: Number of canaries of the later engine.
        relation: Of these.
        earlier: Canaries of the earlier engine; None if it has none.

    Returns:
        Words that continue "3 steps …".
    """
    if earlier is None:
        return "of an earlier engine without canaries"
    if earlier.count != count:
        return (
            f"of an earlier engine with {earlier.count} canaries, where this one has "
            f"{count}"
        )
    if earlier.relation is not relation:
        return f"of an earlier engine with audit_relation={earlier.relation!s}"
    return ""


def _record(phases: list[Phase], step: Phase) -> None:
    phases[-1:] = joined([*phases[-1:], step])


def checked_count(count: object, *, is_private: bool, sampling: str) -> int:
    """Return the number of canaries as a plain int.

    Args:
        count: A whole number from 0 on, if all is well.
        is_private: Whether the run has noise.
        sampling: The engine's option.

    Raises:
        ConfigError: a run cannot have this number of canaries.
    """
    count = whole("audit", count, 0, MAX_CANARIES)
    if count and not is_private:
        raise _refusal(
            "must be 0 if noise_multiplier is 0, because such a run promises no epsilon"
        )
    if count and sampling != "poisson":
        raise _refusal(
            f"must be 0 with sampling={sampling!r}: canaries are drawn by the engine's "
            "own sampler, so they would not audit yours"
        )
    return count


def _refusal(rule: str) -> ConfigError:
    return ConfigError("audit", f"audit, the number of canaries, {rule}.")
