"""What a PrivacyEngine tells of itself: what was spent, and how it came about."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from dpsgd_explorer.accounting import Odometer, Phase, Plan
from dpsgd_explorer.accounting.registry import ALL
from dpsgd_explorer.dp import options, saved_state
from dpsgd_explorer.dp.attachment import Attachment
from dpsgd_explorer.dp.clipping.bound import Bound
from dpsgd_explorer.dp.engines.norm_methods import NormChoice
from dpsgd_explorer.dp.ledger import phases
from dpsgd_explorer.dp.ledger.diagnostics import Diagnostics
from dpsgd_explorer.dp.ledger.ledger import Ledger
from dpsgd_explorer.dp.ledger.receipt import Told, check, receipt
from dpsgd_explorer.dp.noise.base import NoiseSource
from dpsgd_explorer.dp.sampling.sampler import PoissonSampler
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
    _open_ended: bool
    _vouched: bool
    _loss_vouched: bool
    _attachment: Attachment | None
    _diagnostics: Diagnostics | None
    _bound: Bound

    def get_epsilon(
        self,
        delta: float | None = None,
        *,
        assume_poisson: bool = False,
        assume_per_sample_loss: bool = False,
    ) -> float:
        """Return the epsilon of the steps done so far, with those of earlier phases.

        Infinite without noise.

        Args:
            delta: If not the plan's.
            assume_poisson: Vouch that batches from elsewhere were Poisson samples.
            assume_per_sample_loss: Vouch that every loss was a mean or sum of a term
                for each sample, and divided by nothing that depends on the batch.

        Raises:
            PrivacyError: sampling or loss were not checked and nobody vouches for
                them, or something else was done than the accountant was told.
        """
        self._vouch(assume_poisson, assume_per_sample_loss)
        odometer, slack = self.odometer(), self._slack(delta)
        return odometer.epsilon(slack, self.plan.accountant)

    def get_epsilons(
        self,
        delta: float | None = None,
        *,
        assume_poisson: bool = False,
        assume_per_sample_loss: bool = False,
    ) -> dict[str, float]:
        """Return the same as each accountant counts it, by its name.

        Those that say nothing of such steps are left out, as zCDP is if they sample;
        "gdp" is an approximation, all others are bounds.

        Args and Raises: as ``get_epsilon``.
        """
        self._vouch(assume_poisson, assume_per_sample_loss)
        return self.odometer().epsilons(self._slack(delta))

    def _vouch(self, poisson: bool, per_sample_loss: bool) -> None:
        """Remember what the caller vouches for."""
        self._vouched = self._vouched or poisson
        self._loss_vouched = self._loss_vouched or per_sample_loss

    def _slack(self, delta: float | None) -> float:
        return self.plan.delta if delta is None else delta

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
        if not self._loss_is_covered:
            raise PrivacyError(
                "epsilon assumes a loss that is a mean or sum of a term for each "
                "sample, and the engine could not read that from it: "
                f"{self._ledger.losses.refusal}. Reduce the losses of the samples with "
                "dpsgd_explorer.dp.losses.per_sample_mean, or vouch for the loss with "
                "assume_per_sample_loss=True."
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

    def explain(self) -> list[NormChoice]:
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
        covered = (told.poisson or self._vouched) and self._loss_is_covered
        every = covered and self.plan.accountant == ALL
        return receipt(
            told,
            self._ledger,
            options=self.options.as_data(),
            seed=self.seed,
            noise_note=self._noise.note,
            sampling_note=self._sampler.note(told.poisson, self._vouched),
            loss_note=self._ledger.losses.note_text(self._loss_vouched),
            epsilon=self.get_epsilon() if covered else None,
            epsilons=self.get_epsilons() if every else None,
        ) | {"earlier": self._settings["earlier"]}

    @property
    def _loss_is_covered(self) -> bool:
        """Whether the losses were checked or vouched for; nothing rests on them else.

        Epsilon is infinite without noise, and 0 before the first step.
        """
        rests_on_it = self.plan.is_private and self._ledger.steps > 0
        return not (rests_on_it and self._ledger.losses.refusal) or self._loss_vouched

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
            open_ended=self._open_ended,
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
