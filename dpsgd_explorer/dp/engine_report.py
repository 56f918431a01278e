"""What was spent by a run, and how: epsilon, phases and the receipt."""

from __future__ import annotations

from typing import Any

from dpsgd_explorer.accounting import Odometer, Phase
from dpsgd_explorer.accounting.auditing.audit import AuditResult, Unscored
from dpsgd_explorer.accounting.registry import ALL
from dpsgd_explorer.dp.canaries.riders import Riders, why_apart
from dpsgd_explorer.dp.checks.loss.reading import REMEDY
from dpsgd_explorer.dp.engine_state import EngineState
from dpsgd_explorer.dp.ledger import phases
from dpsgd_explorer.dp.ledger.accounted_run import are_of_one_size
from dpsgd_explorer.dp.ledger.receipt import receipt
from dpsgd_explorer.errors import PrivacyError
from dpsgd_explorer.privacy_warning import warn

#: Why no canary went through some steps; both continue "3 steps …".
LOST = "lost before a resume"
BEFORE_SUCH = "of engines before an engine with other canaries or none"


class EngineReport:
    """Answers questions about a run, and changes nothing in it.

    Args:
        state: The run.
        earlier: Report of the engine before this one, on the same records.

    Attributes:
        poisson_assumed: Whether the caller vouched for Poisson sampling.
        loss_assumed: Whether the caller vouched for a per-sample loss.
    """

    def __init__(self, state: EngineState, earlier: EngineReport | None) -> None:
        self._state = state
        self._earlier = earlier
        self.poisson_assumed = self.loss_assumed = False

    def vouch(self, *, poisson: bool, loss: bool) -> None:
        """Remember for what the caller vouches; a vouch is never taken back."""
        self.poisson_assumed |= poisson
        self.loss_assumed |= loss
        if poisson and self._sizes_are_fixed:
            warn(
                f"epsilon assumes Poisson sampling, but {self._fixed_sizes()}; with "
                "Poisson sampling the probability of that is below one in a million. "
                "Epsilon does not hold for batches of one size: use poisson_loader."
            )

    @property
    def _sizes_are_fixed(self) -> bool:
        ledger = self._state.ledger
        return not self._state.run.poisson and are_of_one_size(
            self._state.plan, ledger.batch_sizes.batches, ledger.largest_batches
        )

    def _fixed_sizes(self) -> str:
        ledger = self._state.ledger
        sizes = ledger.batch_sizes
        return (
            f"{ledger.largest_batches} of {sizes.batches} batches had exactly "
            f"{sizes.largest} samples"
        )

    def _seen(self) -> list[str]:
        """Return what may make epsilon too small, in sentences."""
        ledger = self._state.ledger
        seen = []
        if ledger.outside_writes:
            seen.append(
                f"parameters were changed {ledger.outside_writes} times outside the "
                "optimizer's steps"
            )
        if ledger.shares_seed:
            seen.append(
                "another run in the same process used the same seed for its noise"
            )
        if self.poisson_assumed and self._sizes_are_fixed:
            seen.append(f"{self._fixed_sizes()}, unlike Poisson samples")
        return seen

    def epsilon(self, delta: float | None) -> float:
        """Return the epsilon of all steps, by the plan's accountant.

        Args:
            delta: The plan's if None.

        Raises:
            PrivacyError: as ``phases`` does.
        """
        plan = self._state.plan
        return self.odometer().epsilon(self._delta(delta), plan.accountant)

    def epsilons(self, delta: float | None) -> dict[str, float]:
        """Return the epsilon of all steps by each accountant that covers them.

        Raises:
            PrivacyError: as ``phases`` does.
        """
        return self.odometer().epsilons(self._delta(delta))

    def _delta(self, delta: float | None) -> float:
        return self._state.plan.delta if delta is None else delta

    def odometer(self) -> Odometer:
        """Return an odometer that holds all steps.

        Raises:
            PrivacyError: as ``phases`` does.
        """
        odometer = Odometer()
        for phase in self.phases():
            if phase.steps:
                odometer.add_dp_sgd(
                    phase.sample_rate, phase.noise_multiplier, phase.steps
                )
        return odometer

    def phases(self) -> list[Phase]:
        """Return the steps done so far, after those of the earlier engines.

        Raises:
            PrivacyError: sampling or loss were neither checked nor vouched for, or a
                step differs from the plan; here or in an earlier engine.
        """
        state = self._state
        if not self._poisson_is_covered:
            raise PrivacyError(
                "epsilon assumes Poisson sampling, but this engine did not check the "
                "sampling. Use poisson_loader, or vouch for Poisson sampling with "
                "assume_poisson=True."
            )
        if not self._loss_is_covered:
            raise PrivacyError(
                "epsilon assumes a loss that is a mean or sum of one term per sample, "
                "and the engine could not confirm that: "
                f"{state.ledger.losses.refusal}. {REMEDY}"
            )
        state.run.check(state.ledger)
        done = phases.phases_of(
            state.plan, state.ledger.steps, state.options.noise_schedule
        )
        return [*self.earlier_phases(), *done]

    def earlier_phases(self) -> list[Phase]:
        """Return the steps of the earlier engines.

        Raises:
            PrivacyError: as their ``phases`` does.
        """
        return [] if self._earlier is None else self._earlier.phases()

    def writers(self) -> set[str]:
        """Return the names of the ledgers whose steps this report counts."""
        ledger = self._state.ledger
        earlier = set() if self._earlier is None else self._earlier.writers()
        return {ledger.writer, *ledger.released_by, *earlier}

    def audit(self, delta: float | None, confidence: float) -> AuditResult:
        """Return what the canaries prove; see ``AccountedEngine.audit``.

        Raises:
            AccountingError: a number is outside its domain.
            PrivacyError: the engine has no canaries.
        """
        riders = self._state.riders
        if riders is None:
            raise PrivacyError(
                "there is nothing to audit: the engine has no canaries. Pass "
                "PrivacyEngine(..., audit=2000)."
            )
        return riders.audit(self._delta(delta), confidence, self._unscored(riders))

    def _unscored(self, riders: Riders) -> list[Unscored]:
        """Return the steps that these canaries did not go through, earliest first."""
        lost = self._state.ledger.lost_steps
        found = [Unscored(lost, LOST)] if lost else []
        earlier = self._earlier
        if earlier is None:
            return found
        before = earlier._state.riders
        reason = why_apart(riders.count, riders.relation, before)
        if before is not None and not reason:
            return [*earlier._unscored(before), *found]
        done = [Unscored(earlier._state.ledger.steps, reason)]
        if earlier._earlier is not None:
            steps = sum(phase.steps for phase in earlier.earlier_phases())
            done.insert(0, Unscored(steps, BEFORE_SUCH))
        return [*(x for x in done if x.steps), *found]

    def receipt(self) -> dict[str, Any]:
        """Return what the accountant was told next to what was done, as JSON values.

        Raises:
            PrivacyError: the two differ.
        """
        state = self._state
        covered = self._poisson_is_covered and self._loss_is_covered
        all_asked = covered and state.plan.accountant == ALL
        riders = state.riders
        return receipt(
            state.run,
            state.ledger,
            options=state.options.as_data(),
            seed=state.seed,
            noise_note=state.noise.note,
            sampling_note=self._sampling_note(),
            loss_note=state.ledger.losses.note_text(self.loss_assumed),
            epsilon=self.epsilon(None) if covered else None,
            epsilons=self.epsilons(None) if all_asked else None,
            chosen_bounds=state.bound.choices,
            audit=None
            if riders is None
            else riders.receipt(state.plan.delta, self._unscored(riders)),
            world_size=state.ranks.size,
            seen=self._seen(),
        ) | {"earlier": phases.as_data(self.earlier_phases())}

    def _sampling_note(self) -> str:
        if self._state.run.poisson:
            whose = self._state.partition.note
            return f"Poisson, by the engine's own sampler{whose}"
        if self.poisson_assumed:
            return "not checked; the caller vouched for Poisson sampling"
        return "not checked; no epsilon"

    @property
    def _poisson_is_covered(self) -> bool:
        """Whether batches are Poisson samples, checked or vouched for."""
        return self._state.run.poisson or self.poisson_assumed

    @property
    def _loss_is_covered(self) -> bool:
        """Whether the losses are per-sample, checked or vouched for.

        Or irrelevant: epsilon is infinite without noise, and 0 before the first step.
        """
        ledger = self._state.ledger
        irrelevant = not self._state.plan.is_private or ledger.steps == 0
        return irrelevant or not ledger.losses.refusal or self.loss_assumed
