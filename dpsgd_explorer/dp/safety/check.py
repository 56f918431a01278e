"""The safety check: measures on random inputs whether samples mix.

Such a check can refute, not prove: a mixture that random inputs do not show stays.

DP-SGD clips each sample's own gradient.  That bounds a sample's influence only if no
other sample's gradient depends on it.  The types of layers do not show it (a frozen
batch norm mixes samples, and so may three lines of a user's forward), so the gradients
themselves are compared, on random inputs that are independent of the data:

1. the gradient of sample i stays the same when all others change, and nothing that
   the module stores depends on the samples (modules in training mode);
2. neither depends on the number of samples, so the loss is reduced as
   ``loss_reduction`` says (random draws at their means, since another size draws other
   masks);
3. the gradients add up to autograd's;
4. no clipped sample is longer than the bound.

Gradients are made layer by layer.  Where the model is sharded all ranks make the check
together, with equal inputs, and each compares what it stores of the sums.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import torch
from torch import Tensor, nn

from dpsgd_explorer.dp.clipping.clipper import Clipper
from dpsgd_explorer.dp.clipping.sums import clipped_sum
from dpsgd_explorer.dp.distributed.ranks import ALONE, Ranks
from dpsgd_explorer.dp.distributed.sharding import gradients_of, reshard, stored_part
from dpsgd_explorer.dp.engines.base import (
    GradientEngine,
    batch_size_of,
    ignore_loss,
    unit_loss_scale,
)
from dpsgd_explorer.dp.kernels.full_precision import full_precision
from dpsgd_explorer.dp.losses.labels import labels_of
from dpsgd_explorer.dp.losses.target_check import TargetCheck
from dpsgd_explorer.dp.modules import probe_inputs
from dpsgd_explorer.dp.modules.input_rows import called
from dpsgd_explorer.dp.modules.probe_inputs import SAMPLES, SEED
from dpsgd_explorer.dp.modules.pytree import tensors_of
from dpsgd_explorer.dp.modules.seeding import seed_draws
from dpsgd_explorer.dp.modules.state import Changes, ModuleState, refuse_different
from dpsgd_explorer.dp.safety.expected_draws import expected_draws
from dpsgd_explorer.dp.safety.gradient_parts import (
    Rows,
    Samples,
    chosen,
    largest_entry,
    parts_of,
)
from dpsgd_explorer.dp.safety.mixing_module import describe_mixing
from dpsgd_explorer.errors import ExplorerError, MixedLossError, UnsupportedModuleError

LossFunction = Callable[[Any, Any], Tensor]

#: Standard deviation of the rows that change: large, so that a weak mix shows.
OTHERS_SCALE = 10.0
#: Largest relative difference: float32 rounding is far below, a shared statistic above.
TOLERANCE = 1e-3
#: The same in lower precision, in units of its rounding error.
ROUND_OFFS = 8


class SafetyCheck:
    """Measures one module under one gradient engine, and restores its state.

    Args:
        gradient_engine: Computes the per-sample gradients; started.
        clipper: Clips them.
        args, kwargs: A call of the module; only shapes and dtypes are read.
        ranks: The processes that make the check together.
        loss_fn: ``loss_fn(outputs, targets)``; without it the outputs are checked
            under a random linear loss, and the loss itself is not checked.
        targets: The loss function's second argument; only shape and dtype are read.
    """

    def __init__(
        self,
        gradient_engine: GradientEngine,
        clipper: Clipper,
        args: Any,
        kwargs: Any,
        ranks: Ranks = ALONE,
        *,
        loss_fn: LossFunction | None = None,
        targets: Any = None,
    ) -> None:
        self._gradient_engine = gradient_engine
        self._module = gradient_engine.module
        self._clipper = clipper
        self._call = (args, kwargs)
        self._ranks = ranks
        self._size = batch_size_of(args, kwargs)
        self._tolerance = _tolerance(self._module)
        self._loss_fn = loss_fn
        self._targets = targets
        self._labels: dict[int, int] | None = None

    def run(self) -> None:
        """Raise UnsupportedModuleError unless all four conditions hold."""
        self._gradient_engine.input_rows.forget()
        with self._session():
            call = self._random_call(SEED)
            self._module.eval()
            compare_sizes(self._gradient_engine, call, probe_inputs.without_last(call))
            targets = self._random_targets(call)
            self._check_independence(call, targets)
            self._check_ignored_labels(call, targets)
            self._module.eval()
            self._check_targets(call)
            self._check_size(call, targets)
            samples = self._samples(call, targets)
            self._check_sum(call, targets, samples)
            self._check_sensitivity(samples)

    @contextmanager
    def _session(self) -> Iterator[None]:
        """Allow passes inside the context; restore the module's state after it."""
        gradient_engine = self._gradient_engine
        with undisturbed(gradient_engine) as self._state, _explained(gradient_engine):
            self._call = gradient_engine.input_rows.marked(self._call, self._size)
            yield

    def _check_independence(self, call: Any, targets: Any) -> None:
        self._module.train()  # statistics are often stored in training mode only
        samples, changes = self._samples_and_changes(call, targets)
        other = self._random_call(SEED + 1, scale=OTHERS_SCALE)
        moved = probe_inputs.rotated(targets)
        calls = {i: probe_inputs.keep_row(call, other, i) for i in range(SAMPLES)}
        for i, changed in calls.items():
            other_targets = probe_inputs.keep_row(targets, moved, i)
            others, new = self._samples_and_changes(changed, other_targets)
            refuse_different(self._module, changes, new)
            row = range(i, i + 1)
            if not self._same_gradients(chosen(samples, row), chosen(others, row)):
                raise UnsupportedModuleError(
                    describe_mixing(self._module, call, calls, SEED)
                )

    def _check_ignored_labels(self, call: Any, targets: Any) -> None:
        """Check independence with some labels ignored, if the module takes labels."""
        if not self._labels or any(leaf.is_cuda for leaf in tensors_of(call)):
            return  # on a GPU a bad index would end the process's use of the device
        some = probe_inputs.with_ignored(call, self._labels)
        # Where the loss shows that it is weighted, such a batch is refused in training.
        with suppress(MixedLossError):
            self._check_independence(some, targets)

    def _check_targets(self, call: Any) -> None:
        """Measure the loss alone, with targets of all classes and ignored ones."""
        if self._loss_fn is None:
            return
        other = self._random_call(SEED + 1)
        with torch.no_grad():
            outputs, others = (called(self._module, c) for c in (call, other))
        TargetCheck(
            self._loss_fn,
            outputs,
            others,
            self._targets,
            size=self._size,
            loss_reduction=self._gradient_engine.loss_reduction,
            tolerance=self._tolerance,
        ).run()

    def _check_size(self, call: Any, targets: Any) -> None:
        """Compare two sizes in training mode, with random draws at their means."""
        self._module.train()
        with expected_draws():
            samples, changes = self._samples_and_changes(call, targets)
            fewer, new = self._samples_and_changes(
                *probe_inputs.without_last((call, targets))
            )
        refuse_different(self._module, changes, new, sizes=True)
        if not self._same_gradients(chosen(samples, range(SAMPLES - 1)), fewer):
            raise UnsupportedModuleError(self._size_refusal())
        self._module.eval()

    def _size_refusal(self) -> str:
        reduction = self._gradient_engine.loss_reduction
        return (
            "a sample's gradient must not depend on the batch size. Either the loss is "
            f"not a {reduction} over samples, as loss_reduction says, or the module "
            "uses the number of samples."
        )

    def _check_sum(self, call: Any, targets: Any, samples: Samples) -> None:
        with self._unwatched():
            reshard(self._module)
            every = dict(self._module.named_parameters())
            named = {name: p for name, p in every.items() if p.requires_grad}
            loss = self._loss(call, targets)
            found = gradients_of(loss, [*named.values()])
        expected = dict(zip(named, found, strict=True))
        scale = self._gradient_engine.gradient_scale(SAMPLES)
        largest = 0.0
        apart = dict.fromkeys(named, 0.0)
        for (rows,) in self._parts(samples):
            for name, gradients in rows.items():
                total = gradients.sum(0).div_(scale)
                largest = max(largest, largest_entry(total))
                own = stored_part(total, named[name], self._ranks)
                reference = expected.pop(name)
                if reference is not None:
                    own = own - reference.to(own.dtype)
                apart[name] = largest_entry(own)
        for name, reference in expected.items():  # of no layer's own forward
            if reference is not None:
                apart[name] = largest_entry(reference)
        limit = self._tolerance * largest
        wrong = [i for i, name in enumerate(named, 1) if not apart[name] <= limit]
        worst = self._ranks.largest(wrong[0] if wrong else 0)  # on any rank
        if worst:
            raise UnsupportedModuleError(
                f"the per-sample gradients of {[*named][worst - 1]} do not add up to "
                "autograd's: it is used outside its layer's own forward, or the loss "
                f"that the module gives is no {self._gradient_engine.loss_reduction} "
                "over samples, as loss_reduction says. Call the layer instead, use "
                'engine="microbatch", or change loss_reduction.'
            )

    def _check_sensitivity(self, samples: Samples) -> None:
        # Half of the smallest norm: every sample is shortened, so every norm is tested.
        with full_precision():
            squared = [each.squared_norms() for each in samples]
        norms = torch.cat([*map(self._clipper.norms, squared)])
        bound = float(norms[norms > 0].min()) / 2 if bool((norms > 0).any()) else 1.0
        clipper = self._clipper.shrunk_to(bound)
        parameters = self._gradient_engine.parameters()
        total = clipped_sum(parameters, clipper, self._ranks)
        for i in range(SAMPLES):
            total.reset()
            for part in chosen(samples, range(i, i + 1)):
                total.add(part)
            length = self._length_in_bounds(total.norm() / bound)
            if not length <= 1 + self._tolerance:
                raise UnsupportedModuleError(
                    "a clipped gradient is longer than max_grad_norm: a layer rule "
                    f"is wrong ({length:.3g} times the bound)."
                )

    def _length_in_bounds(self, length: float) -> float:
        """Return the length of a whole sum from that of this rank's part.

        Ranks that share parameters have each added the same sample.
        """
        (squared,) = self._ranks.total(length**2)
        return math.sqrt(squared) / self._ranks.size

    def _samples_and_changes(self, call: Any, targets: Any) -> tuple[Samples, Changes]:
        """Return the gradients of a pass and its changes of the module's state."""
        self._state.restore()
        samples = self._samples(call, targets)
        return samples, self._state.changes()

    def _samples(self, call: Any, targets: Any) -> Samples:
        received: Samples = []
        self._gradient_engine.on_gradients = received.append
        loss = self._loss(call, targets)
        if not loss.requires_grad:
            raise UnsupportedModuleError(
                "no trained parameter reaches the loss by its layer's own forward. "
                "Call the layers instead of using their weights, or use "
                'engine="vmap" or "microbatch".'
            )
        loss.backward()  # type: ignore[no-untyped-call]
        return received

    def _parts(self, *passes: Samples) -> Iterator[list[Rows]]:
        return parts_of(*passes, parameters=self._gradient_engine.parameters())

    def _same_gradients(self, first: Samples, second: Samples) -> bool:
        """Whether two passes' gradients are equal, but for rounding."""
        largest, apart = [0.0], [0.0]
        for one, other in self._parts(first, second):
            largest += [largest_entry(values) for values in one.values()]
            apart += [largest_entry(one[name] - other[name]) for name in one]
        return max(apart) <= self._tolerance * max(largest)

    def _loss(self, call: Any, targets: Any) -> Tensor:
        seed_draws(SEED)  # the same random masks in every pass
        outputs = called(self._module, call)
        if self._loss_fn is not None:
            loss = self._loss_fn(outputs, targets)
            if loss.dim():
                raise UnsupportedModuleError(
                    "the loss must be one number for the batch, a mean or a sum over "
                    f"samples; got shape {list(loss.shape)}. Reduce it in loss_fn."
                )
            return loss
        scale = self._gradient_engine.gradient_scale(batch_size_of(*call))
        return probe_inputs.linear_loss(outputs, targets, scale)

    def _random_call(self, seed: int, scale: float = 1.0) -> Any:
        if self._labels is None:
            with self._unwatched():
                self._labels = labels_of(self._module, self._call, self._size)
        return probe_inputs.random_call(
            self._module, self._call, self._size, seed, scale, self._labels
        )

    @contextmanager
    def _unwatched(self) -> Iterator[None]:
        self._gradient_engine.stop()
        try:
            yield
        finally:
            self._gradient_engine.start()

    def _random_targets(self, call: Any) -> Any:
        with torch.no_grad():
            outputs = called(self._module, call)
        if self._loss_fn is None:
            return probe_inputs.random_slopes(outputs)
        return probe_inputs.random_targets(self._targets, self._size, outputs)


def compare_sizes(gradient_engine: GradientEngine, call: Any, fewer: Any) -> None:
    """Run passes of two batch sizes, so that the engine finds batch dimensions."""
    with gradient_engine.learning_batch_dims():
        # The first size again: a layer's batch dimension decides the shapes after it.
        for each_call in (call, fewer, call):
            called(gradient_engine.module, each_call)


def _tolerance(module: nn.Module) -> float:
    """Return the largest relative difference that rounding explains."""
    dtypes = {p.dtype for p in module.parameters() if p.is_floating_point()}
    for device in {p.device.type for p in module.parameters()}:
        if torch.is_autocast_enabled(device):
            dtypes.add(torch.get_autocast_dtype(device))
    return max([TOLERANCE, *(ROUND_OFFS * torch.finfo(d).eps for d in dtypes)])


@contextmanager
def _explained(gradient_engine: GradientEngine) -> Iterator[None]:
    """Explain an error that the module raises on the check's random inputs."""
    try:
        yield
    except ExplorerError:
        raise
    except (RuntimeError, ValueError, TypeError, LookupError, AttributeError) as error:
        reason = f"{type(error).__name__}: {next(iter(str(error).splitlines()), '')}"
        raise UnsupportedModuleError(
            "the safety check cannot run the module on random inputs of these shapes, "
            f"dtypes and ranges of ids ({reason}). {gradient_engine.remedy(error)}"
        ) from error


@contextmanager
def undisturbed(gradient_engine: GradientEngine) -> Iterator[ModuleState]:
    """Restore random state, stored values, modes and callbacks, also on errors."""
    module = gradient_engine.module
    on_gradients, before_forward = (
        gradient_engine.on_gradients,
        gradient_engine.before_forward,
    )
    on_loss = gradient_engine.on_loss
    user_loss_scale = gradient_engine.user_loss_scale
    modes = {submodule: submodule.training for submodule in module.modules()}
    state = ModuleState(module)
    fused = torch.backends.cudnn.enabled
    devices = sorted({p.device.index for p in module.parameters() if p.is_cuda})
    try:
        gradient_engine.before_forward, gradient_engine.user_loss_scale = (
            None,
            unit_loss_scale,
        )
        gradient_engine.on_loss = ignore_loss
        # Its recurrent layers have no backward while a module is evaluated.
        torch.backends.cudnn.enabled = False
        with torch.random.fork_rng(devices=devices), torch.enable_grad():
            yield state
    finally:
        torch.backends.cudnn.enabled = fused
        gradient_engine.on_gradients, gradient_engine.before_forward = (
            on_gradients,
            before_forward,
        )
        gradient_engine.user_loss_scale, gradient_engine.on_loss = (
            user_loss_scale,
            on_loss,
        )
        for submodule, mode in modes.items():
            submodule.training = mode
        state.restore()
