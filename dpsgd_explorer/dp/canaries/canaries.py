"""The canaries of a run: artificial records whose scores audit it.

A fair coin decides whether a canary is a member of the data set.  In every step a
Poisson sampler draws a batch of canaries.  The gradients of the drawn members are
clipped, summed, noised and divided by the classes that process the real records.  Each
canary's gradient is nonzero in one coordinate, which no other canary and no model
parameter uses.  Under the replace-one relation, non-members take part too, with the
opposite gradient.

Coins, batches and noise come from a second random source of the run's kind.  A run
therefore has bit-identical parameters, events and epsilon with and without canaries.

Each released coordinate is converted into the log-likelihood ratio of the canary's
membership.  A canary's score is the sum of these ratios over the steps; the released
values are not stored.

The counts that adaptive clipping releases do not include canaries.  The epsilon that
the audit is compared with includes the cost of the counts, so the comparison stays
valid.

An engine created with ``after=`` continues the canaries of the earlier engine: they
keep their coins, and scores cover the steps of both engines.  Settings changed between
the engines may depend on the network's releases.  These are independent of the coins,
so the scores are distributed as if all settings had been planned beforehand.

Canaries cannot detect:

- faults of the network's random stream, such as a seed used twice;
- per-sample gradients that mix records;
- batches that the engine's sampler did not draw;
- settings that were chosen by looking at the data.
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
    DEFAULT_CONFIDENCE,
    AuditResult,
    Unscored,
    audit,
)
from dpsgd_explorer.accounting.auditing.changed_run import MAX_PLANS, PlanScores
from dpsgd_explorer.accounting.auditing.evidence import Evidence
from dpsgd_explorer.accounting.auditing.log_likelihood import log_likelihood_ratio
from dpsgd_explorer.accounting.core.intervals import Floats
from dpsgd_explorer.accounting.core.neighboring_relation import (
    ADD_OR_REMOVE_ONE,
    NeighboringRelation,
)
from dpsgd_explorer.accounting.core.phase import joined
from dpsgd_explorer.accounting.sampling_schemes import (
    FIXED_SLOTS,
    NO_CANARIES,
    RANDOM_ALLOCATION,
)
from dpsgd_explorer.dp.canaries.gradients import PARAMETER, UNIT, CanaryGradients
from dpsgd_explorer.dp.clipping.clipped_sum import ClippedSum
from dpsgd_explorer.dp.clipping.clipper import Clipper
from dpsgd_explorer.dp.distributed.ranks import ALONE, Ranks
from dpsgd_explorer.dp.ledger.noisy_release import noisy_release
from dpsgd_explorer.dp.noise.base import NoisePlan
from dpsgd_explorer.dp.noise.generators import generators
from dpsgd_explorer.dp.sampling.sampler import PoissonSampler
from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.validation import whole

#: Most canaries of a run.  Above it, the scores alone, 8 bytes per canary, would take
#: more memory than a small model.
MAX_CANARIES = 1_000_000
#: Norm of a canary's gradient, in units of the clipping bound.  Far above 1, so that a
#: step without clipping shows in the scores.
GRADIENT_NORM_RATIO = 1000.0
#: "global" clipping leaves out gradients above its threshold.  Canaries stay below the
#: threshold by this share, more than the rounding of a norm.
THRESHOLD_MARGIN = 1e-6
#: XORed with the run's seed to get the seed of the canaries: the ASCII codes of
#: "canary!".
SEED_MASK = 0x63616E61727921


class Canaries:
    """The canaries of one run.

    Args:
        count: Number of canaries, m.
        plan: Sample rate and steps of the run.
        clipper: Clipper with one group, UNIT, and the bound of the whole gradient.
        noise: A key of NOISES.
        seed: The run's seed; None with secure noise.
        relation: Neighboring relation: a canary that is no member is absent, or is
            replaced by a record with the opposite gradient.
        ranks: The processes that train together; each sums its share of the canaries.
        earlier: Canaries of the earlier engine, to be continued; None to toss new
            coins.

    Attributes:
        count: Number of canaries, m.
        relation: Neighboring relation.
        earlier: Canaries of the earlier engine, or None.
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
        canary_seed = None if seed is None else seed ^ SEED_MASK
        self._noise, generator, _ = generators(noise, canary_seed, ranks)
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
        """True for the canaries that are members, bool [m]."""
        return self._joined if self.earlier is None else self.earlier.joined

    @property
    def scores(self) -> Floats:
        """Sums of the log-likelihood ratios of all steps so far, float64 [m]."""
        return self._scores + (0.0 if self.earlier is None else self.earlier.scores)

    @property
    def phases(self) -> list[Phase]:
        """All steps so far, with the noise multiplier of a canary's coordinate."""
        before = [] if self.earlier is None else self.earlier.phases
        return joined([*before, *self._phases])

    @property
    def plans(self) -> list[tuple[list[Phase], Floats]]:
        """Steps and scores, float64 [m], of each engine that made steps.

        Engines after the first ``MAX_PLANS`` are merged into the last of these.
        """
        before = [] if self.earlier is None else self.earlier.plans
        if not self._phases:
            return before
        if len(before) < MAX_PLANS:
            return [*before, (self._phases, self._scores)]
        phases, scores = before.pop()
        return [*before, (joined([*phases, *self._phases]), scores + self._scores)]

    @property
    def promised(self) -> list[Phase]:
        """All steps so far, with the noise multiplier that the accountant counts.

        It includes the counts of adaptive clipping; ``phases`` does not.
        """
        before = [] if self.earlier is None else self.earlier.promised
        return joined([*before, *self._promised])

    def release(self, noise_plan: NoisePlan, step: int) -> None:
        """Draws, clips, sums and noises canaries, and adds the result to their scores.

        Args:
            noise_plan: Noise, bound and divisor of each step.
            step: Number of steps released before.
        """
        bound = noise_plan.max_grad_norm_at(step)
        total = self._total
        self._clipper.rescale(bound / noise_plan.sensitivity)
        max_norm = self._clipper.max_included_norm * (1 - THRESHOLD_MARGIN)
        norm = min(GRADIENT_NORM_RATIO * bound, max_norm)
        total.reset()
        drawn = total.ranks.share_of(self._sampler.draw())
        members = torch.from_numpy(self.joined)
        if self.relation is ADD_OR_REMOVE_ONE:
            drawn = drawn[members[drawn]]
        if len(drawn):
            signs = torch.where(members, 1.0, -1.0).double()
            total.add(CanaryGradients(drawn, norm, signs))
        q, noise = self._sampler.sample_rate, noise_plan.noise_multiplier_at(step)
        gradients, _ = noisy_release(total, self._noise, noise_plan, q, step)
        released = gradients[self._directions].double().numpy()
        self._scores += log_likelihood_ratio(
            released * (noise_plan.divisor / bound),
            q,
            noise,
            self._clipped_norm(norm) / bound,
            self.relation,
        )
        _record(self._phases, Phase(q, noise, 1))
        _record(self._promised, Phase(q, noise_plan.joint_noise_at(step), 1))

    def _clipped_norm(self, norm: float) -> float:
        """Returns the norm of a canary's gradient after clipping."""
        norms = torch.tensor([norm], dtype=torch.float64)
        [factor] = self._clipper.factors({UNIT: norms**2}, norms).values()
        return float(factor) * norm

    def audit(
        self, delta: float, confidence: float, unscored: Sequence[Unscored] = ()
    ) -> AuditResult:
        """Computes the lower bound on epsilon that the scores so far prove.

        The scores are rounded as in a receipt, so a receipt gives the result again.

        Args:
            delta: Delta of the run.
            confidence: Probability that the bound holds, above 0 and below 1.
            unscored: Steps of the run without these canaries.

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
        """Coins and scores, rounded towards a weaker proof."""
        scores = [values for _, values in self.plans] or [self._scores]
        return Evidence.rounded(np.stack(scores), self.joined)

    def receipt(
        self, delta: float, unscored: Sequence[Unscored] = ()
    ) -> dict[str, Any]:
        """Returns the audit and its inputs, as JSON values.

        Args:
            delta: Delta of the run.
            unscored: Steps of the run without these canaries.
        """
        phases = self.phases
        key = sum(phase.steps for phase in phases), delta, *unscored
        if self._audited is None or self._audited[0] != key:
            self._audited = key, self.audit(delta, DEFAULT_CONFIDENCE, unscored)
        stated = asdict(self._audited[1])
        # Follows from the number of canaries.
        del stated["too_few_canaries"]
        return {
            **stated,
            "neighboring_relation": str(self.relation),
            "phases": [asdict(phase) for phase in phases],
            "plans": [sum(x.steps for x in steps) for steps, _ in self.plans],
            "unscored": [asdict(steps) for steps in unscored],
            **self.evidence.as_data(),
        }

    def as_data(self) -> dict[str, Any]:
        """Returns tensors and plain values, for ``restore``."""
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
        """Continues from a result of ``as_data``.

        Raises:
            ConfigError: the saved canaries have another relation, or other coins than
                the canaries of the earlier engine.
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
    """Returns why new canaries cannot score the steps of an earlier engine.

    Args:
        count: Number of canaries of the new engine.
        relation: Neighboring relation of the new engine's audit.
        earlier: Canaries of the earlier engine; None if it has no canaries.

    Returns:
        Words that follow "3 steps", such as "of an earlier engine without canaries";
        "" if the new engine continues the earlier canaries.
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
    """Appends a step to the phases, in place; equal steps share a phase."""
    phases[-1:] = joined([*phases[-1:], step])


def checked_count(count: object, *, is_private: bool, sampling: str) -> int:
    """Returns the number of canaries as a plain int.

    Args:
        count: Number of canaries, from the user.
        is_private: If True, the run adds noise.
        sampling: The engine's ``sampling`` option.

    Raises:
        ConfigError: ``count`` is not a whole number from 0 to MAX_CANARIES, or it is
            above 0 in a run that cannot be audited.
    """
    count = whole("audit", count, 0, MAX_CANARIES)
    if count and not is_private:
        raise _error(
            "must be 0 if noise_multiplier is 0, because such a run promises no epsilon"
        )
    if count and sampling == RANDOM_ALLOCATION:
        raise _error(NO_CANARIES)
    if count and sampling == FIXED_SLOTS:
        raise _error(
            "must be 0 with fixed slots: the scores of canaries assume Poisson "
            "sampling. Choose Poisson sampling, or no canaries"
        )
    if count and sampling != "poisson":
        raise _error(
            f"must be 0 with sampling={sampling!r}: canaries are drawn by the engine's "
            "own sampler, so they would not audit yours"
        )
    return count


def _error(rule: str) -> ConfigError:
    return ConfigError("audit", f"audit, the number of canaries, {rule}.")
