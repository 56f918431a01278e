"""The state of a run, which changes at every step, and can be saved and restored."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from dpsgd_explorer.accounting import NeighboringRelation, Phase, Plan
from dpsgd_explorer.accounting.sampling_schemes import (
    FIXED_SLOTS,
    POISSON,
    RANDOM_ALLOCATION,
)
from dpsgd_explorer.dp.canaries.canaries import Canaries, unscored_reason
from dpsgd_explorer.dp.canaries.gradients import UNIT
from dpsgd_explorer.dp.checks.loss.reading import REMEDY
from dpsgd_explorer.dp.clipping.adaptive import AdaptiveBound
from dpsgd_explorer.dp.clipping.bound import Bound, PlannedBound, bound_of
from dpsgd_explorer.dp.clipping.clipped_sum import ClippedSum
from dpsgd_explorer.dp.config import Config, Options
from dpsgd_explorer.dp.distributed.agreement import step_fingerprint
from dpsgd_explorer.dp.distributed.ranks import ALONE, Ranks
from dpsgd_explorer.dp.ledger import phases, seeds
from dpsgd_explorer.dp.ledger.as_planned import check_as_planned, planned_release
from dpsgd_explorer.dp.ledger.diagnostics import Diagnostics, diagnose
from dpsgd_explorer.dp.ledger.ledger import Ledger
from dpsgd_explorer.dp.ledger.noisy_release import Gradients, noisy_release
from dpsgd_explorer.dp.ledger.weights import WeightsWatch
from dpsgd_explorer.dp.noise.base import NoisePlan, NoiseSource
from dpsgd_explorer.dp.noise.correlated import CorrelatedNoise
from dpsgd_explorer.dp.noise.generators import generators
from dpsgd_explorer.dp.sampling.allocation import RandomAllocationSampler
from dpsgd_explorer.dp.sampling.cyclic import CyclicPoissonSampler, FixedSlotsSampler
from dpsgd_explorer.dp.sampling.loader import OnDraw
from dpsgd_explorer.dp.sampling.partition import Local, Strided
from dpsgd_explorer.dp.sampling.sampler import Generator, PoissonSampler, Sampler
from dpsgd_explorer.dp.sampling.users import Users, UserSampler
from dpsgd_explorer.errors import ConfigError, PrivacyError
from dpsgd_explorer.validation import one_of, positive

#: Version of the layout of saved states; a state of another version is rejected.
STATE_VERSION = 6


@dataclasses.dataclass(kw_only=True)
class EngineState:
    """One run: its settings, its random sources and the record of its steps.

    Attributes:
        plan: Sizes, steps, noise multiplier, delta and accountant.
        options: How gradients are clipped, noised and sampled.
        open_ended: If True, the run has no length, and the plan covers one epoch.
        steps_are_final: If True, a step after the last step of the plan is an error.
        noise: Source of the noise.
        seed: Seed of noise and sampling; None if noise is secure.
        sampler: Draws the batches.
        bound: Clipping bound of each step.
        canaries: Canaries that go through every step; None without an audit.
        ranks: The processes that train together.
        partition: Assignment of the records of a batch to the ranks.
        ledger: Record of the steps done.
        diagnostics: Statistics of the last step, not private and not saved.
        weights: The parameters after the last step; not saved.
        on_draw: Called for each part of a batch; None if nothing is attached.
        earlier: State of the engine of the earlier phase on the same records, or None.
        poisson_assumed: If True, the caller vouched for Poisson sampling; not saved.
        loss_assumed: If True, the caller vouched for a per-sample loss; not saved.
        users: The owner of each record; None if the samples are records.
    """

    plan: Plan
    options: Options
    open_ended: bool
    steps_are_final: bool
    noise: NoiseSource
    seed: int | None
    sampler: Sampler
    bound: Bound
    canaries: Canaries | None = None
    ranks: Ranks = ALONE
    partition: Strided = dataclasses.field(default_factory=Strided)
    ledger: Ledger = dataclasses.field(default_factory=Ledger)
    diagnostics: Diagnostics | None = None
    weights: WeightsWatch = dataclasses.field(default_factory=WeightsWatch)
    on_draw: OnDraw | None = None
    earlier: EngineState | None = None
    poisson_assumed: bool = False
    loss_assumed: bool = False
    users: Users | None = None

    @property
    def samples_itself(self) -> bool:
        """True if the sampler of the engine draws the batches."""
        return self.options.sampling != "unchecked"

    @property
    def sampling_is_covered(self) -> bool:
        """True if batches are samples as planned, checked or vouched for."""
        return self.samples_itself or self.poisson_assumed

    @property
    def loss_is_covered(self) -> bool:
        """True if the losses are per-sample, checked or vouched for, or irrelevant.

        Losses are irrelevant if epsilon is infinite, since there is no noise, or 0,
        since there is no step.
        """
        is_irrelevant = not self.plan.is_private or self.ledger.steps == 0
        return is_irrelevant or not self.ledger.losses.rejection or self.loss_assumed

    def phases(self) -> list[Phase]:
        """Returns the steps done so far as phases, earlier engines first.

        Raises:
            PrivacyError: sampling or loss were neither checked nor vouched for, or a
                step differs from the plan, in this or an earlier engine.
        """
        if not self.sampling_is_covered:
            raise PrivacyError(
                "epsilon assumes Poisson sampling, but this engine did not check the "
                "sampling. Use poisson_loader, or vouch for Poisson sampling with "
                "assume_poisson=True."
            )
        if not self.loss_is_covered:
            raise PrivacyError(
                "epsilon assumes a loss that is a mean or sum of one term per sample, "
                "and the engine could not confirm that: "
                f"{self.ledger.losses.rejection}. {REMEDY}"
            )
        self.check_as_planned()
        schedule = self.options.noise_schedule
        done = phases.phases_of(self.plan, self.ledger.steps, schedule)
        return [*self.earlier_phases(), *done]

    def earlier_phases(self) -> list[Phase]:
        """Returns the steps of the earlier engines as phases.

        Raises:
            PrivacyError: in the cases of ``phases``, for an earlier engine.
        """
        return [] if self.earlier is None else self.earlier.phases()

    def check_as_planned(self) -> None:
        """Raises PrivacyError if a step differs from the plan."""
        check_as_planned(
            self.ledger, self.plan, self.noise_plan, sampled=self.samples_itself
        )

    @property
    def plans(self) -> list[Plan]:
        """The plans of the earlier engines and of this one."""
        return [*([] if self.earlier is None else self.earlier.plans), self.plan]

    def writers(self) -> set[str]:
        """Returns the names of the ledgers whose steps ``phases`` counts."""
        earlier = set() if self.earlier is None else self.earlier.writers()
        return {self.ledger.writer, *self.ledger.released_by, *earlier}

    @property
    def progress(self) -> str:
        """Number of steps done and number of planned steps, in words."""
        done = self.ledger.steps
        if self.open_ended:
            return f"{done} steps, open-ended"
        return f"{done} of {self.plan.steps} planned steps"

    @property
    def is_between_epochs(self) -> bool:
        """True if steps were done, batches remain, and the loader is not iterating."""
        sampler = self.sampler
        has_begun = self.samples_itself and self.ledger.steps > 0
        has_batches = sampler.steps is not None and sampler.position < sampler.steps
        return has_begun and has_batches and sampler.running is None

    @property
    def noise_plan(self) -> NoisePlan:
        """Noise, clipping bound and divisor of each step."""
        plan, bound, strategy = self.plan, self.bound, self.plan.noise_correlation
        is_mean = self.options.loss_reduction == "mean"
        schedule = plan.noise_schedule
        return NoisePlan(
            noise_multiplier=plan.noise_multiplier,
            sensitivity=self.options.sensitivity,
            divisor=plan.mean_batch_size if is_mean else 1.0,
            noise_factor=None if schedule is None else schedule.over(plan.steps),
            bound_factor=None if bound.is_constant else bound.factor,
            count_noise=bound.count_noise,
            column_norm=1.0 if strategy is None else strategy.column_norm,
        )

    def sensitivity(self, relation: str) -> float:
        """Returns the L2 distance by which a record can change the next clipped sum."""
        bound = self.options.sensitivity * self.bound.factor(self.ledger.steps)
        name = one_of("relation", relation, list(NeighboringRelation))
        return bound * NeighboringRelation(name).sensitivity

    def choose_bound(self, max_grad_norm: float) -> None:
        """Sets the clipping bound of the next step and all later steps.

        Raises:
            ConfigError: the bound is not a number above 0, or the run adapts the bound
                to the gradients.
        """
        max_grad_norm = positive("max_grad_norm", max_grad_norm)
        if not isinstance(self.bound, PlannedBound):
            raise ConfigError(
                "max_grad_norm",
                "max_grad_norm must not be chosen with clipping_schedule, which adapts "
                "it to the gradients. Leave clipping_schedule out.",
            )
        if self.plan.noise_correlation is not None:
            raise ConfigError(
                "max_grad_norm",
                "max_grad_norm must not be changed with noise_correlation, because "
                "later noise cancels noise of the first bound. Create another engine "
                "with after=.",
            )
        factor = max_grad_norm / self.options.sensitivity
        self.bound.choose(self.ledger.steps, factor)

    def release(self, total: ClippedSum, batch_code: int = 0) -> Gradients:
        """Returns the noisy gradients of the next step, and records the step.

        Args:
            total: The clipped sum of the logical batch, or of this rank's part of it.
            batch_code: Code of the whole batch, which the ranks compare.

        Raises:
            PrivacyError: all planned steps are done, and another step would exceed the
                target; or the batch is not the next one of the sampler.
        """
        if self.steps_are_final and self.ledger.steps >= self.plan.steps:
            raise PrivacyError(
                f"all {self.plan.steps} planned steps are done; another step would "
                "spend more than planned. Plan more steps from the start, or give "
                "noise_multiplier instead of target_epsilon or plan."
            )
        noise_plan, step = self.noise_plan, self.ledger.steps
        if self.samples_itself:
            self.sampler.check_order(step)
        size = total.size
        if not self.ranks.is_alone:
            size = self._begin_step_of_ranks(total, step, batch_code)
        if isinstance(self.noise, CorrelatedNoise) and noise_plan.is_private:
            self.noise.begin_step(step)
        gradients, done = noisy_release(
            total, self.noise, noise_plan, self.sampler.sample_rate, step
        )
        if self.canaries is not None:
            self.canaries.release(noise_plan, step)
        growth = 1.0
        if isinstance(self.noise, CorrelatedNoise):
            growth = self.noise.growth * noise_plan.column_norm
        deviation = done.noise_multiplier * done.max_grad_norm * growth
        diagnostics = diagnose(total, deviation)
        if isinstance(self.bound, AdaptiveBound):
            count_noise = self.bound.observe(
                diagnostics.norms,
                done.max_grad_norm,
                self.noise if noise_plan.is_private else None,
                self.ranks,
            )
            done = dataclasses.replace(done, count_noise_multiplier=count_noise)
        self.ledger.record(done, size)
        self.diagnostics = diagnostics
        return gradients

    def _begin_step_of_ranks(
        self, total: ClippedSum, step: int, batch_code: int
    ) -> int:
        """Checks that all ranks make one step, and returns their number of samples."""
        losses = self.ledger.losses
        size, rejections = self.ranks.begin_step(
            step,
            batch_code,
            step_fingerprint(step, total.parameters),
            total.size,
            losses.is_rejected,
        )
        if rejections:
            losses.reject("another rank raised an error for it")
        return size

    def note_draw(
        self,
        size: int,
        to_come: int,
        begins: bool,
        code: int,
        counts: Tensor | None = None,
    ) -> None:
        """Passes a drawn part of a batch on to the session; see OnDraw.

        A loader has no reference to the engine, which would keep a dropped engine from
        being freed.

        Raises:
            PrivacyError: no optimizer is attached.
        """
        if self.on_draw is None:
            raise PrivacyError(
                "a batch was drawn, but no optimizer is attached. Call "
                "engine.attach(optimizer) before the loop. If you attached another "
                "engine since then, iterate over the loader of that engine."
            )
        self.on_draw(size, to_come, begins, code, counts)

    def note_seed(self, parameters: int) -> bool:
        """Records that this run uses its seed for noise.

        Args:
            parameters: Number of entries of a gradient.

        Returns:
            True if another run in this process has used the seed.
        """
        if self.seed is None or not self.plan.is_private:
            return False
        settings = self._settings(earlier=[])
        run = f"{settings} {parameters} {self.ranks.size}"
        self.ledger.shares_seed |= seeds.record(self.seed, run)
        return self.ledger.shares_seed

    def as_data(self) -> dict[str, Any]:
        """Returns tensors and plain values for ``restore``.

        Raises:
            PrivacyError: in the cases of ``earlier_phases``.
        """
        return {
            **self._settings(self.earlier_phases()),
            "seed": self.seed,
            "world_size": self.ranks.size,
            "noise": self.noise.state(),
            "sampler": self.sampler.state(),
            "ledger": self.ledger.as_data(),
            "bound": self.bound.state(),
            "riders": None if self.canaries is None else self.canaries.as_data(),
        }

    def restore(
        self,
        state: Mapping[str, Any],
        lost_steps: int,
        parameters: int,
    ) -> None:
        """Continues from a saved state.

        Args:
            state: The result of ``as_data``.
            lost_steps: Number of steps that any process released after the state was
                saved.
            parameters: Number of entries of a gradient.

        Raises:
            ConfigError: the state belongs to a run with other settings, or to a run of
                several ranks that a single process cannot repeat; or a part of it is
                missing.
            PrivacyError: this run is ahead of the saved state, and seeded noise would
                be added to other gradients again.
        """
        try:
            self._restore(state, lost_steps, parameters)
        except (AttributeError, IndexError, KeyError, TypeError) as error:
            raise ConfigError(
                "state",
                "state must be an unchanged result of state_dict, got one that cannot "
                f"be read ({type(error).__name__}: {error}). Create a new engine with "
                "the arguments of the saved run, and load an earlier checkpoint.",
            ) from error

    def _restore(
        self, state: Mapping[str, Any], lost_steps: int, parameters: int
    ) -> None:
        _check_same_run(state, self._settings(self.earlier_phases()))
        _check_world_size(state, self.ranks.size, is_seeded=self.seed is not None)
        per_draw = self.sampler.batches_per_draw
        if lost_steps % per_draw and not self.noise.repeatable:
            law, unit = self.sampler.law, self.sampler.counted_in
            raise ConfigError(
                "lost_steps",
                f"lost_steps must be a multiple of {per_draw}, the steps of "
                f"{unit}, got {lost_steps}: with {law}, {unit} that a process "
                "began after the state was saved counts as a whole one. The rest of "
                f"the state's own {unit.split()[-1]} is counted without it.",
            )
        ledger = Ledger.from_data(state["ledger"], self.ledger.writer)
        released_by = self.ledger.released_by
        ahead = ledger.missing_steps(released_by)
        if ahead and self.noise.repeatable:
            raise PrivacyError(
                f"this engine has done {ahead} steps that are not in the saved state; "
                "seeded noise would be added a second time, to other gradients. Load "
                "the state into a new PrivacyEngine and repeat those steps."
            )
        self.seed = state["seed"]
        self.noise.restore(state["noise"])
        self.sampler.restore(state["sampler"])
        ledger.losses.add(self.ledger.losses)
        self.ledger = ledger
        self.weights.forget()  # the user restores the model too
        self.bound.restore(state["bound"])
        if self.canaries is not None:
            self.canaries.restore(state["riders"])
        if not self.noise.repeatable:
            lost = max(ledger.missing_steps(released_by, per_draw), lost_steps)
            ledger.fresh_resumes += 1
            ledger.merge(released_by, lost)
            self.sampler.skip(lost)
            self._record_lost(
                self.sampler.position - state["sampler"]["position"], parameters
            )

    def _record_lost(self, steps: int, parameters: int) -> None:
        self.bound.skip(steps)
        for _ in range(steps):
            lost = planned_release(
                self.plan, self.noise_plan, parameters, 1, self.ledger.steps
            )
            self.ledger.record_lost(lost)

    def _settings(self, earlier: Sequence[Phase]) -> dict[str, Any]:
        """Returns the JSON values that are equal in all states of one run."""
        return {
            "version": STATE_VERSION,
            "users": _code(self.users),
            "plan": _plan_data(self.plan),
            "options": self.options.as_data(),
            "audit": 0 if self.canaries is None else self.canaries.count,
            "earlier": phases.as_data(earlier),
        }


def _plan_data(plan: Plan) -> dict[str, Any]:
    """Returns the plan as JSON values; values that older states lack are left out."""
    data = dataclasses.asdict(plan)
    if plan.sampling == POISSON:
        del data["sampling"]
    if plan.noise_correlation is None:
        del data["noise_correlation"]
    elif plan.noise_correlation.inverse is None:
        del data["noise_correlation"]["inverse"]
    return data


def new_state(config: Config, earlier: EngineState | None = None) -> EngineState:
    """Returns the state of a run before its first step.

    Args:
        config: The arguments of the run.
        earlier: State of the engine of the earlier phase, or None.

    Raises:
        ConfigError: the seed is outside its domain, or given to secure noise; or the
            earlier engine has other users, or correlated noise with an audit now.
    """
    plan, options, ranks = config.plan, config.options, config.ranks
    users = config.users
    if earlier is not None and _code(users) != _code(earlier.users):
        raise ConfigError(
            "after",
            "after must be an engine with the same user_ids, because epsilon of "
            "records and of users cannot be added up, got an engine with other ones.",
        )
    plans = [] if earlier is None else earlier.plans
    counts_rounds = any(p.noise_correlation or p.sampling == FIXED_SLOTS for p in plans)
    if counts_rounds and config.canaries:
        raise ConfigError(
            "audit",
            "audit must be 0 after an engine with noise_correlation or fixed slots, "
            "whose steps have no canaries and are not counted one by one, got "
            f"{config.canaries}.",
        )
    noise, generator, seed = generators(
        options.noise, config.seed, ranks, samples_alone=config.spread is Local
    )
    if plan.noise_correlation is not None:
        noise = CorrelatedNoise(noise, plan.noise_correlation, plan.slots or plan.bands)
    return EngineState(
        plan=plan,
        options=options,
        open_ended=config.open_ended,
        steps_are_final=config.steps_are_final,
        noise=noise,
        seed=seed,
        sampler=_sampler(config, generator),
        bound=bound_of(options.clipping_schedule, plan),
        ranks=ranks,
        partition=config.spread(ranks),
        canaries=_canaries(config, seed, None if earlier is None else earlier.canaries),
        earlier=earlier,
        users=users,
    )


def _sampler(config: Config, generator: Generator) -> Sampler:
    plan, users, open_ended = config.plan, config.users, config.open_ended
    if users is not None:
        return UserSampler(plan, generator, users, open_ended=open_ended)
    kind: type[Sampler] = PoissonSampler
    if plan.noise_correlation is not None:
        kind = CyclicPoissonSampler
    if plan.sampling == RANDOM_ALLOCATION:
        kind = RandomAllocationSampler
    if plan.sampling == FIXED_SLOTS:
        kind = FixedSlotsSampler
    return kind(plan, generator, open_ended=open_ended)


def _code(users: Users | None) -> int | None:
    return None if users is None else users.code


def _canaries(
    config: Config, seed: int | None, earlier: Canaries | None
) -> Canaries | None:
    """Returns the canaries of a run; they continue the earlier canaries if possible."""
    count, relation = config.canaries, config.relation
    if not count:
        return None
    return Canaries(
        count,
        config.plan,
        config.options.whole_clipper(UNIT),
        config.options.noise,
        seed,
        relation,
        config.ranks,
        None if unscored_reason(count, relation, earlier) else earlier,
    )


def _check_same_run(state: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
    """Raises ConfigError if the state belongs to a run with other settings."""
    for name, value in settings.items():
        saved = state.get(name)
        if saved == value:
            continue
        if name == "users":
            raise ConfigError(
                "user_ids",
                "the saved users must be this engine's, got other ones. Pass the "
                "user_ids of the saved run, in the same order, or none if it had none.",
            )
        if isinstance(saved, dict) and isinstance(value, dict):
            changed = [k for k in value | saved if value.get(k) != saved.get(k)]
            value, saved = ({k: d.get(k) for k in changed} for d in (value, saved))
        raise ConfigError(
            name,
            f"the saved {name} must be this engine's, {value}, got {saved}. Create "
            "the engine with the arguments of the saved run.",
        )


def _check_world_size(state: Mapping[str, Any], size: int, *, is_seeded: bool) -> None:
    """Raises ConfigError if a single process would repeat steps with other noise.

    A run with seeded noise repeats lost steps with equal noise, so they cost nothing.
    If several ranks drew the noise, a single process draws other noise.
    """
    if is_seeded and size == 1 and state.get("world_size", 1) > 1:
        raise ConfigError(
            "world_size",
            f"world_size must be above 1 to continue from this state, got {size}: each "
            f"of its {state['world_size']} ranks drew separate seeded noise, which a "
            "single process cannot repeat. Start several processes, for example with "
            f"torchrun --nproc-per-node {state['world_size']}, or start the run again.",
        )
