"""The questions that an engine answers: what was planned, done, spent and proven."""

from __future__ import annotations

from typing import Any

from dpsgd_explorer.accounting import Odometer, Phase, Plan
from dpsgd_explorer.accounting.auditing.audit import CONFIDENCE, AuditResult
from dpsgd_explorer.dp.engine_report import EngineReport
from dpsgd_explorer.dp.engine_state import EngineState
from dpsgd_explorer.dp.ledger.diagnostics import Diagnostics
from dpsgd_explorer.dp.options import Options
from dpsgd_explorer.errors import PrivacyError
from dpsgd_explorer.privacy_warning import warn


class AccountedEngine:
    """Answers questions about a run; none of them changes it."""

    _state: EngineState
    _report: EngineReport
    _unfinished_is_known = False

    def __repr__(self) -> str:
        """Return sizes, noise and the steps done out of the plan's."""
        plan = self.plan
        return (
            f"{type(self).__name__}({self._state.progress}, "
            f"sample_size={plan.sample_size}, batch_size={plan.expected_batch_size}, "
            f"noise_multiplier={plan.noise_multiplier:.6g}, delta={plan.delta:.6g})"
        )

    @property
    def plan(self) -> Plan:
        """What the accountant is told: sizes, steps, noise, delta."""
        return self._state.plan

    @property
    def options(self) -> Options:
        """How gradients are clipped, noised and sampled."""
        return self._state.options

    @property
    def seed(self) -> int | None:
        """Seed of noise and sampling, given or drawn; None if noise is secure."""
        return self._state.seed

    def get_epsilon(
        self,
        delta: float | None = None,
        *,
        assume_poisson: bool = False,
        assume_per_sample_loss: bool = False,
    ) -> float:
        """Return the epsilon of the steps done so far, with those of earlier phases.

        Infinite without noise.  Of an unfinished plan it is the epsilon of the steps
        done, without a warning: between two epochs, a loop that prints epsilon looks
        like a loop that has ended.  ``print(engine)`` and the receipt say how many
        planned steps are done, and ``receipt`` warns of planned steps that are left.

        Args:
            delta: The plan's if not given.
            assume_poisson: Vouch that batches from elsewhere were Poisson samples.
            assume_per_sample_loss: Vouch that every loss was a mean or sum of a term
                for each sample, and divided by nothing that depends on the batch.

        Raises:
            PrivacyError: sampling or loss were neither checked nor vouched for, or
                something else was done than the accountant was told.
        """
        self._report.vouch(poisson=assume_poisson, loss=assume_per_sample_loss)
        return self._report.epsilon(delta)

    def get_epsilons(
        self,
        delta: float | None = None,
        *,
        assume_poisson: bool = False,
        assume_per_sample_loss: bool = False,
    ) -> dict[str, float]:
        """Return the same by each accountant, {name: epsilon}.

        Accountants that do not cover such steps are left out, as zCDP is with sampling.
        "gdp" is an approximation, all others are bounds.

        Args and Raises: as ``get_epsilon``.
        """
        self._report.vouch(poisson=assume_poisson, loss=assume_per_sample_loss)
        return self._report.epsilons(delta)

    def odometer(self) -> Odometer:
        """Return the steps done so far, to compose with other releases, and to store.

        Raises:
            PrivacyError: as ``get_epsilon`` does.
        """
        return self._report.odometer()

    def phases(self) -> list[Phase]:
        """Return the steps done so far, after those of the earlier engines.

        Raises:
            PrivacyError: as ``get_epsilon`` does, for any of them.
        """
        return self._report.phases()

    def receipt(self) -> dict[str, Any]:
        """Return what the accountant was told next to what was done, as JSON values.

        Raises:
            PrivacyError: the two differ.

        Warns:
            PrivacyWarning: once, if planned steps are left, no epoch is running, and no
                engine was made with ``after`` this one.
        """
        receipt = self._report.receipt()
        # A receipt is written when training has ended.  ``detach`` shows no such thing:
        # it comes after errors, and before another optimizer or engine.
        if self._state.is_between_epochs and not self._unfinished_is_known:
            self._unfinished_is_known = True
            warn(
                f"the plan is unfinished: only {self._state.progress} are done. If you "
                "end training here, plan fewer epochs or steps next time: the same "
                "epsilon then needs less noise."
            )
        return receipt

    def audit(
        self, delta: float | None = None, confidence: float = CONFIDENCE
    ) -> AuditResult:
        """Return what the canaries prove about the steps done so far.

        Steps of earlier engines are among them if these have as many canaries of the
        same relation; ``unscored`` names the others.  Its promise is that of the scored
        steps, by the exact accountant.  One honest run in 1 / (1 - confidence) may come
        out above its promise: canaries are the worst case itself.

        Args:
            delta: The plan's if not given.
            confidence: Probability that the lower bound holds, below 1.

        Raises:
            ConfigError: a number is outside its domain.
            PrivacyError: the engine has no canaries.
        """
        return self._report.audit(delta, confidence)

    def sensitivity(self, relation: str = "add_or_remove_one") -> float:
        """Return how far one record can move the clipped sum of the next step (L2).

        The noise is ``noise_multiplier`` times that of adding or removing a record.

        Raises:
            ConfigError: the relation is unknown.
        """
        return self._state.sensitivity(relation)

    @property
    def steps_done(self) -> int:
        """Steps that have released a gradient."""
        return self._state.ledger.steps

    @property
    def diagnostics(self) -> Diagnostics:
        """Statistics of the last step's batch; not private."""
        if self._state.diagnostics is None:
            raise PrivacyError("there are no diagnostics before the first step.")
        return self._state.diagnostics
