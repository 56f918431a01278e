"""Attaches DP-SGD to an ordinary PyTorch training loop.

The loop stays ``loss.backward(); optimizer.step(); optimizer.zero_grad()``.  All
backward calls between two steps are one logical batch: every sample is clipped, the
clipped gradients are added, noise is drawn once, and the sum is divided by the
expected batch size, a public constant.

Source: Abadi et al. (2016), arXiv:1607.00133, Algorithm 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from inspect import signature
from typing import Any, Self, TypeVar, get_args

import numpy as np
import numpy.typing as npt
import torch
import torch.distributed as dist
from torch import nn
from torch.amp import GradScaler
from torch.optim import Optimizer
from torch.utils.data import default_collate

from dpsgd_explorer.accounting import Plan
from dpsgd_explorer.accounting.auditing.audit import DEFAULT_CONFIDENCE, AuditResult
from dpsgd_explorer.accounting.core.validation import MAX_STEPS
from dpsgd_explorer.accounting.correlated.strategies import ToeplitzStrategy
from dpsgd_explorer.accounting.rounding import round_up
from dpsgd_explorer.accounting.sampling_schemes import (
    FIXED_SLOTS,
    POISSON,
    RANDOM_ALLOCATION,
)
from dpsgd_explorer.accounting.schedules import Schedule
from dpsgd_explorer.dp import choices
from dpsgd_explorer.dp.accounted_engine import AccountedEngine
from dpsgd_explorer.dp.backends import release_memory
from dpsgd_explorer.dp.checks.passes import LossFunction
from dpsgd_explorer.dp.clipping.bound import ClippingSchedule
from dpsgd_explorer.dp.clipping.groups import clipping_groups
from dpsgd_explorer.dp.config import (
    Audit,
    Clipping,
    Config,
    Execution,
    Noise,
    Sizes,
    check_after,
    check_example,
    check_module,
    check_parameter_lists,
    group,
)
from dpsgd_explorer.dp.distributed.data_parallel import (
    disable_synchronization,
    unwrapped,
)
from dpsgd_explorer.dp.distributed.ranks import ALONE, Ranks
from dpsgd_explorer.dp.engines.base import unit_loss_scale
from dpsgd_explorer.dp.engines.norm_choice import NormChoice
from dpsgd_explorer.dp.ledger import spending
from dpsgd_explorer.dp.ledger.receipt import LAWS
from dpsgd_explorer.dp.optimizers import ScalerBinding, unwrapped_optimizer
from dpsgd_explorer.dp.sampling.loader import (
    FixedSlotsLoader,
    Loader,
    PoissonLoader,
    RandomAllocationLoader,
)
from dpsgd_explorer.dp.sampling.records import Collate, Fetch, Records, fetcher
from dpsgd_explorer.dp.sampling.users import Users
from dpsgd_explorer.dp.session import Session
from dpsgd_explorer.dp.state import new_state
from dpsgd_explorer.errors import ConfigError, PrivacyError
from dpsgd_explorer.validation import one_of, whole

#: A batch (inputs, targets) and the loss of the training.
Example = tuple[tuple[Any, Any], LossFunction]
LoaderKind = TypeVar("LoaderKind", bound=Loader)
#: Owner of each record: a list, an array of numpy or a tensor.
UserIds = Sequence[int] | npt.NDArray[np.integer[Any]] | torch.Tensor


class PrivacyEngine(AccountedEngine):
    """Makes the steps of an optimizer differentially private.

    ``make_private`` creates an engine, its loader and the options in one call.  With an
    engine you call ``attach(optimizer)`` and ``poisson_loader(dataset)`` yourself.  The
    engine then clips the gradient of each sample, adds noise in ``optimizer.step()``
    and counts the steps.  It raises an error where it cannot keep the guarantee.

    Args:
        module: The model, with inputs ``(B, ...)``.  Parameters that have
            ``requires_grad`` when ``attach`` is called are trained.
        batch_size: Expected number of samples B of a logical batch: the sample rate is
            ``batch_size / sample_size``, and the noisy sum is divided by B.  With
            random allocation and fixed slots it is the largest expected number; the sum
            is divided by N/t, with t = ceil(N / B) batches per epoch.
        sample_size: Number of records N of the data set.
        target_epsilon: Epsilon of all steps together; the noise is chosen for it.
        target_delta: Delta, below 1/N; if None, 1/(2N).
        max_grad_norm: Clipping bound C, the maximum L2 norm of a sample's gradient; see
            ``Clipping``.
        epochs: Length of the run in epochs; or give ``steps``.  If you give
            ``noise_multiplier`` and neither of them, the run is open-ended, and
            ``plan.steps`` is the number of batches of the first epoch.
        noise_multiplier: Standard deviation of the noise divided by C; or give
            ``target_epsilon``.  With 0 the engine only clips, and epsilon is infinite.
        accounting_mode: "exact": the smallest epsilon that holds; the bounds "rdp",
            "glw" and "moments"; "gdp": an approximation; "zcdp": without sampling; the
            theorems "optimal", "advanced" and "basic"; or "all": the exact accountant
            decides, and the receipt contains the epsilon of each.
        named_params: For users of FastDP: must be all trainable parameters.
        clipping_mode: How norms are computed: "MixOpt", "MixGhostClip", "ghost" or
            "instantiate", or {layer's name: mode}; see ``Execution``.
        clipping_fn: "automatic", "Abadi" or "global"; ``fn`` of ``Clipping``.
        clipping_style: "all-layer", "layer-wise" or "param-wise", or names of layers or
            parameters; ``style`` of ``Clipping``.
        clipping_threshold: ``threshold`` of ``Clipping``.
        origin_params: For users of FastDP: parts of parameter names; checked, without
            an effect.
        loss_reduction: "mean" or "sum": the reduction of the loss over the samples.  As
            in other libraries, the gradient of a "sum" is not divided by the batch
            size.
        noise: "secure" or "seeded"; ``kind`` of ``Noise``.
        engine: "hooks", "extending", "vmap" or "microbatch"; see ``Execution``.
        physical_batch_size: Maximum number of samples in memory; see ``Execution``.
        sampling: "poisson": batches must come from ``poisson_loader``.
            "random_allocation": batches must come from ``random_allocation_loader``,
            each record once per epoch; without canaries and ``user_ids``.
            "fixed_slots": batches must come from ``fixed_slots_loader``, the same
            batches in each epoch; without canaries, schedules and ``user_ids``.
            "unchecked": batches may come from any loader, and ``get_epsilon`` raises an
            error unless you pass ``assume_poisson=True``.
        example_inputs: A batch ``(inputs, targets)`` as the loader yields it, inputs of
            shape ``(B, ...)``.  The safety check then runs in ``attach``, and also
            checks the loss.  The check uses shapes and dtypes, not values.
        loss_fn: ``loss_fn(outputs, targets)``, the loss of the training; needs
            ``example_inputs``.  If the engine cannot derive from the graph of a loss
            that it is a mean or sum over samples, it compares the graph with the graph
            of this function, which the safety check measured.
        steps: Length of the run in batches; or give ``epochs``, or neither.
        seed: Seed of ``noise="seeded"``; see ``Noise``.
        plan: A ``Plan`` in place of sizes, length, noise, delta and accountant.
        noise_schedule: ``schedule`` of ``Noise``.
        clipping_schedule: ``schedule`` of ``Clipping``.
        augmentation_multiplicity: Number of views per sample, which are next to each
            other in the batch (``dp.views``).  A sample's gradient is the mean over its
            views.
        grad_scaler: A ``torch.amp.GradScaler``; see ``Execution``.
        after: The engine of an earlier phase on the same records: ``get_epsilon`` then
            covers both phases.  Canaries continue if both engines have the same number
            of them.  ``target_epsilon`` applies to the new phase alone.
        group: Processes that train together; see ``Execution``.
        partition: "strided" or "local"; see ``Execution``.
        audit: Number of canaries; ``canaries`` of ``Audit``.
        audit_relation: "add_or_remove_one" or "replace_one"; ``relation`` of ``Audit``.
        assume_per_sample_loss: If True, the caller vouches that every loss is a mean or
            sum of a term for each sample, divided by nothing that depends on the batch.
        user_ids: Owner of each record, one whole number >= 0 per record: a list, an
            array or a tensor ``(N,)``.  If given, the samples are users: ``batch_size``
            and ``sample_size`` count users, a user's gradient is the mean over the
            user's records in the batch, delta is below 1 / users, and
            ``physical_batch_size`` counts records.
        records_per_user: Largest number of records of a user in a batch, drawn again
            for each batch; None for all.  Needs ``user_ids``.
        noise_correlation: Strategy of noise that is correlated between steps, such as
            ``accounting.banded_strategy(steps, bands=8)``; None for independent noise.
            With "poisson", batches then come from b groups of records in turn.  With
            "fixed_slots", ``accounting.geometric_strategy`` keeps the noise of one step
            only.

    Attributes:
        module: The model.

    Raises:
        ConfigError: an argument is outside its domain, is missing, or contradicts
            another one; ``field`` of the error is the argument's name.

    Source: Abadi et al. (2016), arXiv:1607.00133, Algorithm 1.  Names of arguments: Bu
    et al. (2022), arXiv:2210.00038 (FastDP).

    Example:
        >>> import torch
        >>> from torch import nn
        >>> from dpsgd_explorer import dp
        >>> x, y = torch.randn(200, 3), torch.randn(200, 1)
        >>> model = nn.Linear(3, 1)
        >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        >>> engine = dp.PrivacyEngine(
        ...     model, batch_size=20, sample_size=200, epochs=2, target_epsilon=3.0
        ... )
        >>> engine.attach(optimizer)
        >>> loader = engine.poisson_loader((x, y))
        >>> for epoch in range(2):
        ...     for inputs, targets in loader:
        ...         nn.functional.mse_loss(model(inputs), targets).backward()
        ...         optimizer.step()
        ...         optimizer.zero_grad()
        >>> round(engine.get_epsilon(), 4), engine.steps_done
        (3.0, 20)
        >>> engine.detach()
    """

    def __init__(
        self,
        module: nn.Module,
        *,
        batch_size: int | None = None,
        sample_size: int | None = None,
        target_epsilon: float | None = None,
        target_delta: float | None = None,
        max_grad_norm: float | Sequence[float] = 1.0,
        epochs: float | None = None,
        noise_multiplier: float | None = None,
        accounting_mode: choices.AccountingMode = "exact",
        named_params: Sequence[tuple[str, nn.Parameter]] | None = None,
        clipping_mode: choices.ClippingMode = "MixOpt",
        clipping_fn: choices.ClippingFn = "automatic",
        clipping_style: choices.ClippingStyle = "all-layer",
        clipping_threshold: float | None = None,
        origin_params: Sequence[str] | None = None,
        loss_reduction: choices.LossReduction = "mean",
        noise: choices.Noise = "secure",
        engine: choices.Engine = "hooks",
        physical_batch_size: int | None = None,
        sampling: choices.Sampling = "poisson",
        example_inputs: tuple[Any, Any] | None = None,
        loss_fn: LossFunction | None = None,
        steps: int | None = None,
        seed: int | None = None,
        plan: Plan | None = None,
        noise_schedule: Schedule | None = None,
        clipping_schedule: ClippingSchedule | None = None,
        augmentation_multiplicity: int = 1,
        grad_scaler: GradScaler | None = None,
        after: PrivacyEngine | None = None,
        audit: int = 0,
        audit_relation: choices.AuditRelation = "add_or_remove_one",
        group: dist.ProcessGroup | Ranks = ALONE,
        partition: choices.Partition = "strided",
        assume_per_sample_loss: bool = False,
        user_ids: UserIds | None = None,
        records_per_user: int | None = None,
        noise_correlation: ToeplitzStrategy | None = None,
    ) -> None:
        check_module(module)
        check_after(after, PrivacyEngine)
        config = Config.of(
            Sizes(
                batch_size=batch_size,
                sample_size=sample_size,
                steps=steps,
                epochs=epochs,
                noise_multiplier=noise_multiplier,
                target_epsilon=target_epsilon,
                target_delta=target_delta,
            ),
            clipping=Clipping(
                max_grad_norm=max_grad_norm,
                fn=clipping_fn,
                style=clipping_style,
                threshold=clipping_threshold,
                schedule=clipping_schedule,
            ),
            noise=Noise(kind=noise, seed=seed, schedule=noise_schedule),
            execution=Execution(
                engine=engine,
                clipping_mode=clipping_mode,
                physical_batch_size=physical_batch_size,
                grad_scaler=grad_scaler,
                group=group,
                partition=partition,
            ),
            audit=Audit(canaries=audit, relation=audit_relation),
            plan=plan,
            accounting_mode=accounting_mode,
            sampling=sampling,
            loss_reduction=loss_reduction,
            augmentation_multiplicity=augmentation_multiplicity,
            users=_users(user_ids, records_per_user),
            noise_correlation=noise_correlation,
        )
        inner = unwrapped(module, config.ranks)
        check_parameter_lists(inner, named_params, origin_params)
        example = _checked_example(example_inputs, loss_fn)
        self._begin(module, config, example, after, assume_per_sample_loss)

    @classmethod
    def _of(
        cls,
        module: nn.Module,
        config: Config,
        *,
        example: Example | None,
        after: PrivacyEngine | None,
        assume_per_sample_loss: bool,
    ) -> Self:
        """Returns an engine with a checked ``Config``."""
        check_module(module)
        check_after(after, PrivacyEngine)
        engine = cls.__new__(cls)
        engine._begin(module, config, example, after, assume_per_sample_loss)
        return engine

    def _begin(
        self,
        module: nn.Module,
        config: Config,
        example: Example | None,
        after: PrivacyEngine | None,
        assume_per_sample_loss: bool,
    ) -> None:
        """Prepares the run, without attaching anything.

        Args:
            module: The model, or a wrapper around it.
            config: The arguments of the run.
            example: A batch and the loss of the training, or None.
            after: The engine of an earlier phase, or None.
            assume_per_sample_loss: If True, the caller vouches for the loss.

        Raises:
            ConfigError: an argument does not fit the model.
        """
        self._wrapper, self.module = module, unwrapped(module, config.ranks)
        options = config.options
        # Creating a clipper checks the names of layers before ``attach``.
        options.clipper(clipping_groups(options.clipping_style, self.module))
        self._state = new_state(config, None if after is None else after._state)
        self._state.loss_assumed = assume_per_sample_loss
        if after is not None:  # the user has ended the earlier phase on purpose
            after._unfinished_is_known = True
        self._example = example
        self._execution = config.execution
        self._session: Session | None = None

    def __setattr__(self, name: str, value: object) -> None:
        """Sets an attribute, but no argument of the constructor.

        Raises:
            ConfigError: the name is an argument, which has no effect after the engine
                was created.
        """
        if name in ARGUMENTS:
            raise ConfigError(
                name,
                f"{name} must be given when the engine is created, got {value!r} for "
                "an existing engine. Create an engine with the new value and "
                "after=engine, which counts the steps of both.",
            )
        super().__setattr__(name, value)

    def poisson_loader(
        self,
        dataset: Records,
        *,
        steps: int | None = None,
        collate: Collate | None = None,
        num_workers: int = 0,
    ) -> PoissonLoader:
        """Returns a loader of Poisson batches, which the accountant assumes.

        Each record is in each batch with probability ``batch_size / sample_size``; with
        ``user_ids``, each user is.
        With ``noise_correlation``, each record draws one of b groups, and batch t
        contains each record of group t mod b with b times the probability.
        Each iteration is an epoch, and ``len(loader)`` is the number of its batches:
        iteration e ends after ceil(e N / batch_size) batches, counted from the start of
        the run.  If you leave an iteration early, or save the run in its middle, the
        next iteration completes it.  ``loader.all_epochs()`` yields the remaining
        batches of the plan.  After the last planned batch both raise PrivacyError.

        Args:
            dataset: A TensorDataset, a tuple of tensors ``(N, ...)``, or any data set
                with a length and items by index, such as a list.
            steps: Number of batches of the whole run; if None, the steps of the plan.
            collate: Function that joins a list of items into a batch; if None, torch's
                ``default_collate``.
            num_workers: Number of processes that fetch records ahead.  The batches do
                not depend on it.

        Raises:
            ConfigError: the data set has no length or no items by index, or its length
                is not ``sample_size`` or that of ``user_ids``; ``collate`` sorts the
                records of users; or ``steps`` or ``num_workers`` is not a whole number.
        """
        sampling = self._state.plan.sampling
        if sampling != POISSON:
            raise ConfigError(
                "sampling",
                f"sampling must be {POISSON!r} for poisson_loader, got {sampling!r}. "
                f"Use {sampling}_loader.",
            )
        if steps is not None:
            self._state.sampler.steps = whole("steps", steps, 1, MAX_STEPS)
        return self._loader(PoissonLoader, dataset, collate, num_workers)

    def random_allocation_loader(
        self,
        dataset: Records,
        *,
        collate: Collate | None = None,
        num_workers: int = 0,
    ) -> RandomAllocationLoader:
        """Returns a loader of random allocation: each record once per epoch.

        Each iteration is an epoch of t = ceil(N / batch_size) batches.  In each epoch,
        every record draws one of them, afresh and independently.  Every batch must make
        a step, in its order.  If you leave an iteration early, or save the run in its
        middle, the next iteration completes it.

        Args:
            dataset: A TensorDataset, a tuple of tensors ``(N, ...)``, or any data set
                with a length and items by index, such as a list.
            collate: Function that joins a list of items into a batch; if None, torch's
                ``default_collate``.
            num_workers: Number of processes that fetch records ahead.  The batches do
                not depend on it.

        Raises:
            ConfigError: ``sampling`` of the engine is not "random_allocation"; the data
                set has no length or no items by index, or its length is not
                ``sample_size``; or ``num_workers`` is not a whole number.

        Source: Feldman and Shenfeld (2025), arXiv:2502.08202.
        """
        self._require_sampling(RANDOM_ALLOCATION)
        return self._loader(RandomAllocationLoader, dataset, collate, num_workers)

    def fixed_slots_loader(
        self,
        dataset: Records,
        *,
        collate: Collate | None = None,
        num_workers: int = 0,
    ) -> FixedSlotsLoader:
        """Returns a loader of fixed slots: the same batches in each epoch.

        Each iteration is an epoch of t = ceil(N / batch_size) batches.  Every record
        draws one of them, once for the whole run.  Every batch must make a step, in its
        order.  If you leave an iteration early, or save the run in its middle, the next
        iteration completes it.

        Args:
            dataset: As for ``random_allocation_loader``.
            collate: As for ``random_allocation_loader``.
            num_workers: As for ``random_allocation_loader``.

        Raises:
            ConfigError: ``sampling`` of the engine is not "fixed_slots"; or as for
                ``random_allocation_loader``.

        Source: arXiv:2601.22334.
        """
        self._require_sampling(FIXED_SLOTS)
        return self._loader(FixedSlotsLoader, dataset, collate, num_workers)

    def _require_sampling(self, sampling: str) -> None:
        if self._state.plan.sampling != sampling:
            raise ConfigError(
                "sampling",
                f"sampling must be {sampling!r} for {sampling}_loader, got "
                f"{self.options.sampling!r}. Pass it to PrivacyEngine.",
            )

    def _loader(
        self,
        kind: type[LoaderKind],
        dataset: Records,
        collate: Collate | None,
        num_workers: int,
    ) -> LoaderKind:
        return kind(
            dataset,
            self._state.sampler,
            self._state.note_draw,
            collate,
            self._execution.physical_batch_size,
            num_workers,
            self._state.partition,
        )

    def attach(self, *optimizers: Optimizer) -> None:
        """Makes the steps of these optimizers private until ``detach`` is called.

        Several optimizers share the steps: after a batch the first ``step()`` draws the
        noise and counts as one step.  Each optimizer updates its own parameters, once.
        A wrapper with the optimizer in its attribute ``optimizer``, such as
        accelerate's, may be given in its place.

        If you drop an engine without ``detach()``, it stays attached, so that training
        remains private, until another engine takes over its model or optimizer.

        Until ``detach()``, glibc retains freed memory for the next step, unless an
        environment variable of glibc, such as ``MALLOC_TRIM_THRESHOLD_``, sets another
        limit.

        Args:
            optimizers: Optimizers of torch.  Each trainable parameter of the module is
                in one of them, and they contain no other parameters.

        Raises:
            ConfigError: an argument is not an optimizer of torch, or is an optimizer
                that evaluates the loss several times per step.
            UnsupportedModuleError: the model cannot be trained with the guarantee.
            PrivacyError: the optimizers train other parameters than the module's, or
                another engine that still exists is attached.

        Warns:
            PrivacyWarning: another engine has spent privacy on these parameters, and is
                not in ``after``.
        """
        if self._session is not None:
            raise PrivacyError("the engine is already attached. Call detach() first.")
        torch_optimizers = [unwrapped_optimizer(o) for o in optimizers or (None,)]
        with ExitStack() as undo:
            scaler = self._execution.grad_scaler
            session = Session(
                self.module,
                torch_optimizers,
                self._state,
                self,
                unit_loss_scale if scaler is None else scaler.get_scale,
                self._execution.physical_batch_size,
            )
            undo.callback(session.undo)
            session.loss_is_vouched = self._state.loss_assumed
            if self._example is not None:
                session.check_example(*self._example)
            session.add_undo(disable_synchronization(self._wrapper))
            if scaler is not None:
                session.add_undo(ScalerBinding(scaler).release)
            spending.warn_of_uncounted(
                self.module, self._state.writers(), session.dropped
            )
            undo.pop_all()
        self._session = session

    def detach(self) -> None:
        """Restores module and optimizers; the steps done stay counted."""
        if self._session is not None:
            session, self._session = self._session, None
            session.undo()
            release_memory()

    def accumulating(self) -> AbstractContextManager[None]:
        """Returns a context in which backward calls add to a batch without ending it.

        The first backward call after the ``with`` block ends the batch.  Only
        ``engine="extending"`` needs this context, and only for batches that do not come
        from ``poisson_loader``: otherwise ``step()`` or the loader ends a batch.

        Raises:
            PrivacyError: no optimizer is attached.
        """
        return self._attached("add a batch to").batch.accumulate()

    def public(self) -> AbstractContextManager[None]:
        """Returns a context for passes on rows that need no protection.

        In the context the model is an ordinary one: nothing is clipped, and the
        gradients of the rows have no noise.  The next step adds them to the noisy
        gradient of its batch.  ``zero_grad`` drops them.  Rows are public if they
        contain nobody's record: public data, or samples of a generator that was trained
        through a private model.  Epsilon does not cover them, and the receipt says how
        often this was used.

        Both the forward and the backward pass of public rows must be in the context,
        and neither pass of private rows.

        Raises:
            PrivacyError: the engine is not attached, releases gradients in backward
                (``engine="extending"``), or runs in several processes; or a gradient of
                an earlier step is still there.

        Example:
            >>> import torch
            >>> from torch.nn.functional import mse_loss
            >>> model = torch.nn.Linear(3, 1)
            >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            >>> engine = PrivacyEngine(
            ...     model, batch_size=10, sample_size=100, steps=20, target_epsilon=3.0
            ... )
            >>> engine.attach(optimizer)
            >>> private = torch.randn(100, 3), torch.randn(100, 1)
            >>> x, y = next(iter(engine.poisson_loader(private)))
            >>> mse_loss(model(x), y).backward()
            >>> with engine.public():
            ...     mse_loss(model(torch.zeros(5, 3)), torch.zeros(5, 1)).backward()
            >>> optimizer.step()
        """
        return self._attached("use public rows in").public()

    def _attached(self, action: str) -> Session:
        if self._session is None:
            raise PrivacyError(
                f"the engine must be attached before you {action} it. Call "
                "attach(optimizer) first."
            )
        return self._session

    def choose_max_grad_norm(self, max_grad_norm: float) -> None:
        """Sets the clipping bound of the next step and all later ones.

        The noise is a multiple of the bound, so epsilon does not change.  You may
        choose the bound from released values, such as earlier parameters.  If you
        choose it from the records, for example from gradient norms, epsilon does not
        cover the choice.

        Args:
            max_grad_norm: Maximum L2 norm of a sample's whole gradient; the ratios
                between the bounds of clipping groups stay the same.

        Raises:
            ConfigError: ``max_grad_norm`` is not a number above 0, or the bound follows
                the gradients (``AdaptiveClipping``).
            PrivacyError: no optimizer is attached; or a batch was drawn, and its step
                has not been made.
        """
        self._attached("choose a bound for").choose_bound(max_grad_norm)

    def explain(self) -> list[NormChoice]:
        """Returns how the norm of each layer call of the last pass was computed.

        Each entry names the layer, the method (ghost norm or gradients), the cost of
        both methods, and the reason for the choice.  The list is empty for an engine
        without a choice.

        Raises:
            PrivacyError: no optimizer is attached.
        """
        return self._attached("explain").explain()

    def state_dict(self) -> dict[str, Any]:
        """Returns tensors and plain values for ``load_state_dict``.

        The state contains neither the model nor the optimizer; ``Run.state_dict``
        contains all three.  With seeded noise the resumed run is equal bit by bit.  The
        key of secure noise is not saved: noise and batches after the resume are new.
        The past noise of ``noise_correlation`` is saved with seeded noise only.

        Raises:
            PrivacyError: a batch is between its draw and its step.
        """
        if self._session is not None:
            self._session.batch.check_not_in_flight("saved")
        return self._state.as_data()

    def load_state_dict(self, state: dict[str, Any], *, lost_steps: int = 0) -> None:
        """Continues a run from a saved state.

        Steps that this engine has made and that are not in the state count as lost
        steps: epsilon never shrinks.

        Args:
            state: The result of ``state_dict``.
            lost_steps: Number of steps that any process made after the state was saved,
                if anyone may have seen their models or metrics.  Seeded noise repeats
                these steps, so they cost nothing.  Secure noise does not, so they are
                counted, and the run becomes shorter by ``lost_steps``.  Steps of this
                engine itself are counted without it.  With random allocation, count
                every epoch that a process began after the state as a whole one; the
                rest of an epoch that the state is inside of is counted without it.  The
                same holds for fixed slots, and for the rounds of b steps of
                ``noise_correlation``.

        Raises:
            ConfigError: the state belongs to a run with other settings.
            PrivacyError: a batch is between its draw and its step; or this engine is
                ahead of the state, and seeded noise would be used again.
        """
        if self._session is not None:
            self._session.batch.check_not_in_flight("restored")
        size = sum(p.numel() for p in self.module.parameters() if p.requires_grad)
        self._state.restore(state, lost_steps, parameters=size)
        if self._session is not None:
            self._session.set_bound()


#: Arguments of an engine that nothing can change after it was created.
ARGUMENTS = frozenset(signature(PrivacyEngine.__init__).parameters) - {"self", "module"}


def _checked_example(
    inputs: tuple[Any, Any] | None, loss_fn: LossFunction | None
) -> Example | None:
    """Returns (inputs, loss function), or None if both are None.

    Raises:
        ConfigError: an argument is missing or has another type.
    """
    if inputs is None and loss_fn is None:
        return None
    check_example(inputs, loss_fn)
    assert inputs is not None
    assert loss_fn is not None
    return inputs, loss_fn


#: Number of records of the example batch of ``make_private``: the smallest number that
#: shows whether the loss mixes samples.
EXAMPLE_RECORDS = 2


class Run:
    """A training run with DP-SGD; ``make_private`` creates it.

    Attributes:
        engine: The ``PrivacyEngine`` that clips, adds noise and counts the steps.
        optimizers: The optimizers whose steps are private, a tuple.
        loader: The loader, which yields the batches of one epoch per iteration.

    Source: Abadi et al. (2016), arXiv:1607.00133, Algorithm 1.

    Example:
        >>> import torch
        >>> from torch.nn.functional import mse_loss
        >>> from dpsgd_explorer import dp
        >>> data = torch.randn(100, 3), torch.randn(100, 1)
        >>> model = torch.nn.Linear(3, 1)
        >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        >>> run = dp.make_private(
        ...     model, optimizer, data, batch_size=10, epochs=2, target_epsilon=3.0
        ... )
        >>> for epoch in run.epochs():
        ...     for x, y in epoch:
        ...         mse_loss(model(x), y).backward()
        ...         optimizer.step()
        ...         optimizer.zero_grad()
        >>> run
        Run(ε = 3.00 at δ = 0.005, exact; 20 of 20 steps; secure noise; Poisson batches)
    """

    def __init__(
        self,
        engine: PrivacyEngine,
        optimizers: Sequence[Optimizer],
        loader: Loader,
    ) -> None:
        self.engine = engine
        self.optimizers = tuple(optimizers)
        self.loader = loader

    @property
    def plan(self) -> Plan:
        """The ``Plan`` that the accountant receives: sizes, steps, noise, delta."""
        return self.engine.plan

    def epochs(self) -> Iterator[Loader]:
        """Yields the loader once for each remaining epoch, without end if open-ended.

        Raises:
            PrivacyError: no batch was drawn since the loader was yielded.
        """
        sampler = self.loader.batch_sampler
        while sampler.steps is None or sampler.position < sampler.steps:
            before = sampler.position
            yield self.loader
            if sampler.position == before:
                raise PrivacyError(
                    "each epoch of epochs() must be iterated over, got one of which no "
                    "batch was drawn. Write: for epoch in run.epochs(): for x, y in "
                    "epoch: ..."
                )

    def epsilon(self, delta: float | None = None) -> float:
        """Returns the epsilon of the steps done so far.

        Args:
            delta: Delta, between 0 and 1; if None, the delta of the plan.

        Raises:
            PrivacyError: the engine could not derive from the graph of a loss that it
                is a sum or mean of a term for each sample, or the steps differ from the
                plan.
        """
        return self.engine.get_epsilon(delta)

    def group_epsilon(self, records: int, delta: float | None = None) -> float:
        """Returns the epsilon of the steps done so far for a person with k records.

        Args:
            records: Number of the person's records k, from 1 to 1000.
            delta: Delta, between 0 and 1; if None, the delta of the plan.

        Raises:
            AccountingError: ``records`` or ``delta`` is outside its domain.
            PrivacyError: in the same cases as ``epsilon``.
        """
        return self.engine.group_epsilon(records, delta)

    @property
    def clipped_fraction(self) -> float | None:
        """Share of samples of the last batch whose gradients were clipped.

        It is not private, and None for an empty batch.

        Raises:
            PrivacyError: no step was made yet.
        """
        return self.engine.diagnostics.clipped_fraction

    def receipt(self) -> dict[str, Any]:
        """Returns the planned and the actual values; see ``PrivacyEngine.receipt``.

        ``dp.receipt_text`` returns them as text.
        """
        return self.engine.receipt()

    def audit(
        self, delta: float | None = None, confidence: float = DEFAULT_CONFIDENCE
    ) -> AuditResult:
        """Returns the lower bound on epsilon that the canaries prove.

        Args:
            delta: Delta, between 0 and 1; if None, the delta of the plan.
            confidence: Probability that the lower bound holds, below 1.

        Raises:
            ConfigError: a number is outside its domain.
            PrivacyError: the run has no canaries.
        """
        return self.engine.audit(delta, confidence)

    def state_dict(self) -> dict[str, Any]:
        """Returns the states of model, optimizers and engine, for ``load_state_dict``.

        Raises:
            PrivacyError: a batch is between its draw and its step.
        """
        return {
            "model": self.engine.module.state_dict(),
            "optimizers": [optimizer.state_dict() for optimizer in self.optimizers],
            "engine": self.engine.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any], *, lost_steps: int = 0) -> None:
        """Continues a run from a saved state.

        Args:
            state: The result of ``state_dict``.
            lost_steps: Number of steps that any process made after the state was saved,
                if anyone may have seen their models or metrics; see
                ``PrivacyEngine.load_state_dict``.

        Raises:
            ConfigError: the state belongs to a run with other settings.
            PrivacyError: a batch is between its draw and its step.
        """
        if len(state["optimizers"]) != len(self.optimizers):
            raise ConfigError(
                "state",
                f"state must hold {len(self.optimizers)} optimizers, got "
                f"{len(state['optimizers'])}.",
            )
        # The engine is first, since it rejects the state of another run.
        self.engine.load_state_dict(state["engine"], lost_steps=lost_steps)
        self.engine.module.load_state_dict(state["model"])
        for optimizer, saved in zip(self.optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(saved)

    def detach(self) -> None:
        """Restores model and optimizers; the steps done stay counted."""
        self.engine.detach()

    def __repr__(self) -> str:
        plan, engine = self.plan, self.engine
        try:
            spent = f"ε = {round_up(engine.get_epsilon())}"
        except PrivacyError:  # epsilon() says why
            spent = "ε unknown"
        planned = self.loader.batch_sampler.steps
        of = "" if planned is None else f" of {planned:,}"
        law = "Poisson batches" if plan.slots is None else LAWS[plan.sampling]
        law += ", correlated noise" * (plan.noise_correlation is not None)
        return (
            f"Run({spent} at δ = {plan.delta:.2g}, {plan.accountant}; "
            f"{engine.steps_done:,}{of} steps; {engine.options.noise} noise; "
            f"{law}{' of users' * (engine.options.unit == 'user')})"
        )


def make_private(
    model: nn.Module,
    optimizer: Optimizer | list[Optimizer] | tuple[Optimizer, ...],
    dataset: Records,
    *,
    batch_size: int,
    epochs: float | None = None,
    steps: int | None = None,
    target_epsilon: float | None = None,
    noise_multiplier: float | None = None,
    target_delta: float | None = None,
    accounting_mode: choices.AccountingMode = "exact",
    clipping: Clipping | None = None,
    noise: Noise | None = None,
    execution: Execution | None = None,
    audit: Audit | None = None,
    loss_fn: LossFunction | None = None,
    loss_reduction: choices.LossReduction = "mean",
    assume_per_sample_loss: bool = False,
    augmentation_multiplicity: int = 1,
    collate: Collate | None = None,
    sample_size: int | None = None,
    after: Run | PrivacyEngine | None = None,
    user_ids: UserIds | None = None,
    records_per_user: int | None = None,
    sampling: choices.LoaderSampling = "poisson",
    noise_correlation: ToeplitzStrategy | None = None,
) -> Run:
    """Makes the steps of an optimizer differentially private and returns the run.

    Model and optimizer are not wrapped.  The training loop stays ``loss.backward()``,
    ``optimizer.step()``, ``optimizer.zero_grad()``, over the batches of
    ``run.epochs()``.  Give ``target_epsilon`` or ``noise_multiplier``, and with
    ``target_epsilon`` also ``epochs`` or ``steps``.

    Args:
        model: The model, with inputs ``(B, ...)``.  Parameters with ``requires_grad``
            are trained.
        optimizer: The optimizer of the model, or several that share the steps.
        dataset: A TensorDataset, a tuple of tensors ``(N, ...)``, or any data set with
            a length and items by index, such as a list.
        batch_size: Expected number of samples B of a batch; each record is in a batch
            with probability B / N.
        epochs: Length of the run in epochs; or give ``steps``.  If you give
            ``noise_multiplier`` and neither of them, the run is open-ended.
        steps: Length of the run in batches.
        target_epsilon: Epsilon of all steps together; the noise is chosen for it.
        noise_multiplier: Standard deviation of the noise divided by the clipping bound;
            or give ``target_epsilon``.
        target_delta: Delta, below 1/N; if None, 1/(2N).
        accounting_mode: "exact", "rdp", "glw", "moments", "gdp", "zcdp", "optimal",
            "advanced", "basic" or "all"; see ``PrivacyEngine``.
        clipping: How gradients are clipped; if None, ``Clipping()``: automatic clipping
            at norm 1.
        noise: How noise is drawn; if None, ``Noise()``: unpredictable noise.
        execution: How a step is computed; if None, ``Execution()``.
        audit: Canaries; if None, there are no canaries.
        loss_fn: ``loss_fn(outputs, targets)`` of the training.  If given, model and
            loss are checked now, on two records, and not at the first step; a record
            must then be a pair of inputs and targets.
        loss_reduction: "mean" or "sum": the reduction of the loss over the samples.
        assume_per_sample_loss: If True, the caller vouches that every loss is a mean or
            sum of a term for each sample, divided by nothing that depends on the batch.
        augmentation_multiplicity: Number of views per sample (``dp.views``).
        collate: Function that joins a list of records into a batch; if None, torch's
            ``default_collate``.
        sample_size: Number of records of all ranks together, for ``partition="local"``;
            if None, the length of the data set.
        after: The run or engine of an earlier phase on the same records; epsilon then
            includes its steps.
        user_ids: Owner of each record, one whole number >= 0 per record: a list, an
            array or a tensor ``(N,)``.  If given, the samples are users: ``batch_size``
            and N count users, a user's gradient is the mean over the user's records in
            the batch, and delta is below 1 / users.  ``physical_batch_size`` counts
            records.
        records_per_user: Largest number of records of a user in a batch, drawn again
            for each batch; None for all.  Needs ``user_ids``.
        sampling: "poisson": each record is in each batch with probability B / N.
            "random_allocation": in each epoch of t = ceil(N / B) batches, each record
            is in one batch, which it draws afresh; the sum is divided by N/t.
            "fixed_slots": as before, but each record draws its batch once for the whole
            run.  Its ε is larger; it is meant for correlated noise.
        noise_correlation: Strategy of noise that is correlated between steps:
            ``accounting.banded_strategy(steps, bands=8)``, or with "fixed_slots"
            ``accounting.geometric_strategy(0.9, steps)``; None for independent noise.

    Returns:
        The run, attached to the optimizer.

    Raises:
        ConfigError: an argument is outside its domain, is missing, or contradicts
            another one; ``field`` of the error is the argument's name.
        UnsupportedModuleError: the model cannot be trained with the guarantee.
        PrivacyError: the optimizer trains other parameters than the model's, or another
            engine is attached to them.

    Source: Abadi et al. (2016), arXiv:1607.00133, Algorithm 1.

    Example:
        >>> import torch
        >>> from dpsgd_explorer import dp
        >>> data = torch.randn(1000, 3), torch.randn(1000, 1)
        >>> model = torch.nn.Linear(3, 1)
        >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        >>> run = dp.make_private(
        ...     model, optimizer, data, batch_size=50, epochs=5, target_epsilon=2.0
        ... )
        >>> run.plan.steps, len(run.loader)  # batches of the run and of an epoch
        (100, 20)
    """
    execution = group("execution", execution, Execution)
    one_of("sampling", sampling, get_args(choices.LoaderSampling))
    fetch, size = fetcher(dataset, collate or default_collate)
    users = _users(user_ids, records_per_user)
    if sample_size is None and users is None:
        sample_size = size
    config = Config.of(
        Sizes(
            batch_size=batch_size,
            sample_size=sample_size,
            epochs=epochs,
            steps=steps,
            target_epsilon=target_epsilon,
            noise_multiplier=noise_multiplier,
            target_delta=target_delta,
        ),
        clipping=group("clipping", clipping, Clipping),
        noise=group("noise", noise, Noise),
        execution=execution,
        audit=group("audit", audit, Audit),
        accounting_mode=accounting_mode,
        loss_reduction=loss_reduction,
        augmentation_multiplicity=augmentation_multiplicity,
        users=users,
        sampling=sampling,
        noise_correlation=noise_correlation,
    )
    engine = PrivacyEngine._of(
        model,
        config,
        example=_example(fetch, size, loss_fn),
        after=after.engine if isinstance(after, Run) else after,
        assume_per_sample_loss=assume_per_sample_loss,
    )
    loaders: dict[str, type[Loader]] = {
        POISSON: PoissonLoader,
        RANDOM_ALLOCATION: RandomAllocationLoader,
        FIXED_SLOTS: FixedSlotsLoader,
    }
    loader = engine._loader(loaders[sampling], dataset, collate, execution.num_workers)
    optimizers = list(optimizer) if isinstance(optimizer, list | tuple) else [optimizer]
    engine.attach(*optimizers)
    return Run(engine, optimizers, loader)


def _users(user_ids: UserIds | None, records_per_user: int | None) -> Users | None:
    """Returns the owner of each record, None without owners.

    Raises:
        ConfigError: the owners or the number are wrong, or only the number was given.
    """
    if user_ids is not None:
        return Users(user_ids, records_per_user)
    if records_per_user is not None:
        raise ConfigError(
            "records_per_user",
            "records_per_user must be given together with user_ids, got "
            f"{records_per_user!r} alone.",
        )
    return None


def _example(fetch: Fetch, size: int, loss_fn: LossFunction | None) -> Example | None:
    """Returns a batch of inputs and targets, with the loss; None without a loss.

    Raises:
        ConfigError: a batch is not a pair.
    """
    if loss_fn is None:
        return None
    batch = fetch(torch.arange(min(EXAMPLE_RECORDS, size)))
    if not isinstance(batch, tuple | list) or len(batch) != 2:
        raise ConfigError(
            "loss_fn",
            "loss_fn must be left out unless a batch is a pair of inputs and targets, "
            f"got a batch of type {type(batch).__name__}.",
        )
    check_example(batch, loss_fn)
    inputs, targets = batch
    return (inputs, targets), loss_fn
