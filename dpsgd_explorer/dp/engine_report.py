"""What a PrivacyEngine tells of itself: what was spent, and how it came about."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from dpsgd_explorer.accounting import Odometer, Phase, Plan
from dpsgd_explorer.accounting.table import ALL
from dpsgd_explorer.dp import options, phases, saved_state
from dpsgd_explorer.dp.attachment import Attachment
from dpsgd_explorer.dp.clipping_bound import Bound
from dpsgd_explorer.dp.diagnostics import Diagnostics
from dpsgd_explorer.dp.ledger import Ledger
from dpsgd_explorer.dp.noise_source import NoiseSource
from dpsgd_explorer.dp.receipt import Told, check, receipt
from dpsgd_explorer.dp.sampling import PoissonSampler
from dpsgd_explorer.dp.ways import Choice
from dpsgd_explorer.errors import PrivacyError


class EngineReport:
    """The questions that an engine answers; it changes nothing.

    Attributes:
        plan: What the accountant is told.
        options: How gradients are clipped, noised and sampled.
        seed: Of noise and sampling, given or drawn; None if noise is secure.
    """

    plan: Plan
    options: options.Options
    seed: int | None
    _noise: NoiseSource
    _sampler: PoissonSampler
    _ledger: Ledger
    _after: EngineReport | None
    _vouched: bool
    _attachment: Attachment | None
    _diagnostics: Diagnostics | None
    _bound: Bound

    def get_epsilon(
        self, delta: float | None = None, *, assume_poisson: bool = False
    ) -> float:
        """Return the epsilon of the steps done so far, with those of earlier phases.

        Infinite without noise.

        Args:
            delta: If not the plan's.
            assume_poisson: Vouch that batches from elsewhere were Poisson samples.

        Raises:
            PrivacyError: the sampling was not checked and nobody vouches for it, or
                something else was done than the accountant was told.
        """
        odometer, slack = self._spent(delta, assume_poisson)
        return odometer.epsilon(slack, self.plan.accountant)

    def get_epsilons(
        self, delta: float | None = None, *, assume_poisson: bool = False
    ) -> dict[str, float]:
        """Return the same as each accountant counts it, by its name.

        Those that say nothing of such steps are left out, as zCDP is if they sample;
        "gdp" is an approximation, all others are bounds.

        Args and Raises: as ``get_epsilon``.
        """
        odometer, slack = self._spent(delta, assume_poisson)
        return odometer.epsilons(slack)

    def _spent(
        self, delta: float | None, assume_poisson: bool
    ) -> tuple[Odometer, float]:
        """Return what was done and the delta to read it at."""
        self._vouched = self._vouched or assume_poisson
        return self.odometer(), self.plan.delta if delta is None else delta

    def odometer(self) -> Odometer:
        """Return what was done so far, to be composed with more, and to be stored.

        Raises:
            PrivacyError: as ``get_epsilon`` does.
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
            PrivacyError: as ``get_epsilon`` does, for any of them.
        """
        if self.options.sampling == "unchecked" and not self._vouched:
            raise PrivacyError(
                "epsilon assumes Poisson sampling, and this engine did not check it. "
                "Use poisson_loader, or vouch for it with assume_poisson=True."
            )
        check(self._told, self._ledger)
        done = phases.phases_of(
            self.plan, self._ledger.steps, self.options.noise_schedule
        )
        return [*self._earlier(), *done]

    def _earlier(self) -> list[Phase]:
        return [] if self._after is None else self._after.phases()

    def sensitivity(self, relation: str = "add_or_remove_one") -> float:
        """Return how far one record can move the clipped sum (L2).

        The noise is ``noise_multiplier`` times that of adding or removing a record.
        With a ``clipping_schedule`` it is that of the next step.

        Raises:
            ConfigError: the relation is unknown.
        """
        bound = self.options.sensitivity * self._bound.factor(self._ledger.steps)
        return bound * options.moves_of(relation)

    def explain(self) -> list[Choice]:
        """Return, for each use of a layer at the last pass, how its norm was made.

        Ghost norm or gradients, what either costs at that shape, and why it was chosen;
        [] for an engine that has no choice.
        """
        if self._attachment is None:
            raise PrivacyError("there is nothing to explain before attach().")
        return self._attachment.explain()

    @property
    def steps_done(self) -> int:
        """Steps that have released a gradient."""
        return self._ledger.steps

    @property
    def diagnostics(self) -> Diagnostics:
        """What the last step saw; not private."""
        if self._diagnostics is None:
            raise PrivacyError("there are no diagnostics before the first step.")
        return self._diagnostics

    def receipt(self) -> dict[str, Any]:
        """Return what the accountant was told beside what was done, as JSON values.

        Raises:
            PrivacyError: the two differ.
        """
        told = self._told
        covered = told.poisson or self._vouched
        every = covered and self.plan.accountant == ALL
        return receipt(
            told,
            self._ledger,
            options=self.options.as_data(),
            seed=self.seed,
            noise_note=self._noise.note,
            sampling_note=self._sampler.note(told.poisson, self._vouched),
            epsilon=self.get_epsilon() if covered else None,
            epsilons=self.get_epsilons() if every else None,
        ) | {"earlier": self._settings["earlier"]}

    @property
    def _told(self) -> Told:
        mean = self.options.loss_reduction == "mean"
        noise = self.options.noise_schedule
        changes = self.options.clipping_schedule is not None
        return Told(
            plan=self.plan,
            max_grad_norm=self.options.sensitivity,
            divisor=float(self.plan.expected_batch_size) if mean else 1.0,
            poisson=self.options.sampling == "poisson",
            noise_factor=None if noise is None else noise.over(self.plan.steps),
            bound_factor=self._bound.factor if changes else None,
            count_noise=self._bound.count_noise,
        )

    @property
    def _settings(self) -> dict[str, Any]:
        """What two states of one run have in common, as JSON values."""
        return {
            "version": saved_state.STATE_VERSION,
            "plan": asdict(self.plan),
            "options": self.options.as_data(),
            "earlier": phases.as_data(self._earlier()),
        }
