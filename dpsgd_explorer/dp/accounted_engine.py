"""The read-only interface of an engine: plan, steps done, epsilon, receipt, audit."""

from __future__ import annotations

from typing import Any

from dpsgd_explorer.accounting import (
    Odometer,
    Phase,
    Plan,
    group_epsilon_interval,
)
from dpsgd_explorer.accounting.auditing.audit import (
    DEFAULT_CONFIDENCE,
    AuditResult,
    Unscored,
)
from dpsgd_explorer.accounting.batch_sizes import are_of_one_size
from dpsgd_explorer.accounting.registry import ALL
from dpsgd_explorer.accounting.sampling_schemes import POISSON
from dpsgd_explorer.dp.canaries.canaries import Canaries, unscored_reason
from dpsgd_explorer.dp.config import Options
from dpsgd_explorer.dp.ledger import phases
from dpsgd_explorer.dp.ledger.diagnostics import Diagnostics
from dpsgd_explorer.dp.ledger.receipt import LAWS, accountant_input, receipt
from dpsgd_explorer.dp.state import EngineState
from dpsgd_explorer.errors import PrivacyError
from dpsgd_explorer.privacy_warning import warn

#: Reasons why no canary went through some steps, for texts such as "3 steps …".
LOST_STEPS = "lost before a resume"
STEPS_WITHOUT_CANARIES = "of engines before an engine with other canaries or none"


class AccountedEngine:
    """Answers questions about a run, without changing the run."""

    _state: EngineState
    _unfinished_is_known = False

    def __repr__(self) -> str:
        """Returns sizes, noise and the steps done out of the plan's."""
        plan = self.plan
        return (
            f"{type(self).__name__}({self._state.progress}, "
            f"sample_size={plan.sample_size}, batch_size={plan.expected_batch_size}, "
            f"noise_multiplier={plan.noise_multiplier:.6g}, delta={plan.delta:.6g})"
        )

    @property
    def plan(self) -> Plan:
        """The ``Plan`` that the accountant receives: sizes, steps, noise, delta."""
        return self._state.plan

    @property
    def options(self) -> Options:
        """How gradients are clipped, noised and sampled."""
        return self._state.options

    @property
    def seed(self) -> int | None:
        """Seeds of noise and sampling, given or drawn; None if noise is secure."""
        return self._state.seed

    def get_epsilon(
        self,
        delta: float | None = None,
        *,
        assume_poisson: bool = False,
        assume_per_sample_loss: bool = False,
    ) -> float:
        """Returns the epsilon of the steps done so far and of earlier phases.

        Epsilon is infinite without noise.  If the plan is unfinished, this method
        returns the epsilon of the steps done and does not warn, since a loop may print
        epsilon after each epoch.  ``print(engine)`` and the receipt show the number of
        planned steps done, and ``receipt`` warns of remaining steps.

        Args:
            delta: Delta, between 0 and 1; if None, the delta of the plan.
            assume_poisson: If True, the caller vouches that batches from another loader
                were Poisson samples.
            assume_per_sample_loss: If True, the caller vouches that every loss was a
                mean or sum of a term for each sample, divided by nothing that depends
                on the batch.

        Raises:
            PrivacyError: sampling or loss were neither checked nor vouched for, or the
                steps differ from the plan.
        """
        self._vouch(poisson=assume_poisson, loss=assume_per_sample_loss)
        return self.odometer().epsilon(self._delta(delta), self.plan.accountant)

    def get_epsilons(
        self,
        delta: float | None = None,
        *,
        assume_poisson: bool = False,
        assume_per_sample_loss: bool = False,
    ) -> dict[str, float]:
        """Returns the epsilon of the steps by each accountant, {name: epsilon}.

        Accountants that do not cover such steps are left out, for example "zcdp" with
        sampling.  "gdp" is an approximation, all others are bounds.

        Args:
            delta: Delta, between 0 and 1; if None, the delta of the plan.
            assume_poisson: See ``get_epsilon``.
            assume_per_sample_loss: See ``get_epsilon``.

        Raises:
            PrivacyError: in the same cases as ``get_epsilon``.
        """
        self._vouch(poisson=assume_poisson, loss=assume_per_sample_loss)
        return self.odometer().epsilons(self._delta(delta))

    def group_epsilon(
        self,
        records: int,
        delta: float | None = None,
        *,
        assume_poisson: bool = False,
        assume_per_sample_loss: bool = False,
    ) -> float:
        """Returns the epsilon of the steps done so far for a person with k records.

        All records of the person are added or removed together.  The exact accountant
        computes it, whatever the accountant of the plan is.

        Args:
            records: Number of the person's records k, from 1 to 1000.
            delta: Delta, between 0 and 1; if None, the delta of the plan.
            assume_poisson: See ``get_epsilon``.
            assume_per_sample_loss: See ``get_epsilon``.

        Raises:
            AccountingError: ``records`` or ``delta`` is outside its domain.
            PrivacyError: in the same cases as ``get_epsilon``.
        """
        self._vouch(poisson=assume_poisson, loss=assume_per_sample_loss)
        plans = self._state.plans
        if any(p.noise_correlation and p.sampling == POISSON for p in plans):
            raise PrivacyError(
                "group_epsilon must be used without noise_correlation, unless sampling "
                "is 'fixed_slots': a person's records are in different groups, and no "
                "bound for them is proven."
            )
        spent = group_epsilon_interval(self.phases(), self._delta(delta), records)
        return float(spent)

    def odometer(self) -> Odometer:
        """Returns an ``Odometer`` with the steps done so far.

        It composes them with other releases, and can be stored as JSON.

        Raises:
            PrivacyError: in the same cases as ``get_epsilon``.
        """
        odometer = Odometer()
        for phase in self.phases():
            if phase.steps:
                odometer.add_steps(phase)
        return odometer

    def phases(self) -> list[Phase]:
        """Returns the steps done so far as phases, earlier engines first.

        Raises:
            PrivacyError: in the same cases as ``get_epsilon``, for any of the engines.
        """
        return self._state.phases()

    def receipt(self) -> dict[str, Any]:
        """Returns the planned values next to the actual values, as JSON values.

        ``dp.receipt_text`` returns a receipt as text.

        Raises:
            PrivacyError: planned and actual values differ.

        Warns:
            PrivacyWarning: once, if planned steps remain, no epoch is running, and no
                later engine has this engine as ``after``.
        """
        written = self._receipt()
        # A receipt is usually written when training has ended.  ``detach`` would be no
        # sign of the end: it is also called after errors, and to attach another
        # optimizer or engine.
        if self._state.is_between_epochs and not self._unfinished_is_known:
            self._unfinished_is_known = True
            warn(
                f"the plan is unfinished: only {self._state.progress} are done. If you "
                "end training here, plan fewer epochs or steps next time: the same "
                "epsilon then needs less noise."
            )
        return written

    def audit(
        self, delta: float | None = None, confidence: float = DEFAULT_CONFIDENCE
    ) -> AuditResult:
        """Returns the lower bound on epsilon that the canaries prove.

        The bound covers the steps done so far.  It includes the steps of an earlier
        engine if both engines have the same number of canaries and the same relation;
        ``unscored`` of the result names the other steps.  The result compares the bound
        with the epsilon of the scored steps by the exact accountant.  On average one
        correct run in 1 / (1 - confidence) may exceed it, since canaries are the worst
        case.

        Args:
            delta: Delta, between 0 and 1; if None, the delta of the plan.
            confidence: Probability that the lower bound holds, below 1.

        Raises:
            ConfigError: a number is outside its domain.
            PrivacyError: the engine has no canaries.
        """
        canaries = self._state.canaries
        if canaries is None:
            raise PrivacyError(
                "there is nothing to audit: the engine has no canaries. Pass "
                "PrivacyEngine(..., audit=2000)."
            )
        unscored = _unscored(self._state, canaries)
        return canaries.audit(self._delta(delta), confidence, unscored)

    def sensitivity(self, relation: str = "add_or_remove_one") -> float:
        """Returns the L2 distance by which one record can change the next clipped sum.

        The standard deviation of the noise is ``noise_multiplier`` times the
        sensitivity for "add_or_remove_one".

        Args:
            relation: "add_or_remove_one" or "replace_one".

        Raises:
            ConfigError: the relation is unknown.
        """
        return self._state.sensitivity(relation)

    @property
    def steps_done(self) -> int:
        """Number of steps that have released a gradient."""
        return self._state.ledger.steps

    @property
    def diagnostics(self) -> Diagnostics:
        """Statistics of the batch of the last step; not private.

        Raises:
            PrivacyError: no step was made yet.
        """
        if self._state.diagnostics is None:
            raise PrivacyError("there are no diagnostics before the first step.")
        return self._state.diagnostics

    def _delta(self, delta: float | None) -> float:
        return self.plan.delta if delta is None else delta

    def _vouch(self, *, poisson: bool, loss: bool) -> None:
        """Records what the caller vouches for, for all later questions too."""
        state = self._state
        state.poisson_assumed |= poisson
        state.loss_assumed |= loss
        if poisson and _has_fixed_sizes(state):
            warn(
                f"epsilon assumes Poisson sampling, but {_fixed_sizes(state)}; with "
                "Poisson sampling the probability of that is below one in a million. "
                "Epsilon does not hold for batches of one size: use poisson_loader."
            )

    def _receipt(self) -> dict[str, Any]:
        state = self._state
        plan, ledger, canaries = state.plan, state.ledger, state.canaries
        covered = state.sampling_is_covered and state.loss_is_covered
        has_all = covered and plan.accountant == ALL
        state.check_as_planned()
        return receipt(
            accountant_input(
                plan, state.noise_plan, ledger.steps, open_ended=state.open_ended
            ),
            ledger,
            options=state.options.as_data(),
            seed=state.seed,
            noise_note=state.noise.note,
            sampling_note=_sampling_note(state),
            loss_note=ledger.losses.note_text(state.loss_assumed),
            epsilon=self.get_epsilon() if covered else None,
            epsilons=self.get_epsilons() if has_all else None,
            chosen_bounds=state.bound.choices,
            audit=None
            if canaries is None
            else canaries.receipt(plan.delta, _unscored(state, canaries)),
            world_size=state.ranks.size,
            warnings=_warnings(state),
        ) | {"earlier": phases.as_data(state.earlier_phases())}


def _unscored(state: EngineState, canaries: Canaries) -> list[Unscored]:
    """Returns the steps that these canaries did not go through, earliest first."""
    lost_steps = state.ledger.lost_steps
    lost = [Unscored(lost_steps, LOST_STEPS)] if lost_steps else []
    earlier = state.earlier
    if earlier is None:
        return lost
    earlier_canaries = earlier.canaries
    reason = unscored_reason(canaries.count, canaries.relation, earlier_canaries)
    if earlier_canaries is not None and not reason:
        return [*_unscored(earlier, earlier_canaries), *lost]
    done = [Unscored(earlier.ledger.steps, reason)]
    if earlier.earlier is not None:
        steps = sum(phase.steps for phase in earlier.earlier_phases())
        done.insert(0, Unscored(steps, STEPS_WITHOUT_CANARIES))
    return [*(unscored for unscored in done if unscored.steps), *lost]


def _sampling_note(state: EngineState) -> str:
    if state.samples_itself:
        plan = state.plan
        law = LAWS[plan.sampling]
        if plan.noise_correlation is not None and plan.sampling == POISSON:
            law += f" from {plan.bands} groups in turn"
        of_users = "" if state.users is None else ", of users"
        return f"{law}, by the engine's own sampler{state.partition.note}{of_users}"
    if state.poisson_assumed:
        return "not checked; the caller vouched for Poisson sampling"
    return "not checked; no epsilon"


def _warnings(state: EngineState) -> list[str]:
    """Returns sentences on events that may make epsilon too small."""
    ledger = state.ledger
    warnings = []
    if ledger.outside_writes:
        warnings.append(
            f"parameters were changed {ledger.outside_writes} times outside the "
            "optimizer's steps"
        )
    if ledger.public_passes:
        warnings.append(
            f"{ledger.public_passes} times the program declared rows public, which "
            "epsilon does not cover"
        )
    if ledger.shares_seed:
        warnings.append(
            "another run in the same process used the same seed for its noise"
        )
    if state.poisson_assumed and _has_fixed_sizes(state):
        warnings.append(f"{_fixed_sizes(state)}, unlike Poisson samples")
    return warnings


def _has_fixed_sizes(state: EngineState) -> bool:
    """Returns True if batches of another loader have too many equal sizes.

    Poisson samples have such sizes with a probability below one in a million.
    """
    plan, ledger = state.plan, state.ledger
    return not state.samples_itself and are_of_one_size(
        ledger.largest_batches,
        ledger.batch_sizes.batches,
        sample_size=plan.sample_size,
        sample_rate=plan.sample_rate,
    )


def _fixed_sizes(state: EngineState) -> str:
    ledger = state.ledger
    sizes = ledger.batch_sizes
    return (
        f"{ledger.largest_batches} of {sizes.batches} batches had exactly "
        f"{sizes.largest} samples"
    )
