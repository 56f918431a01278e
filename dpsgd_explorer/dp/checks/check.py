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
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from dpsgd_explorer.dp.checks.draw_patterns import Pattern, patterns
from dpsgd_explorer.dp.checks.gradient_parts import (
    NotFiniteError,
    Rows,
    Samples,
    chosen,
    differences,
    joined,
    largest_difference,
    largest_entry,
    squared_norms_of,
    summed_rows,
    weighted_parts,
)
from dpsgd_explorer.dp.checks.loss.target import TargetCheck
from dpsgd_explorer.dp.checks.mixing_module import describe_mixing
from dpsgd_explorer.dp.checks.passes import (
    FAILURES,
    TOLERANCE,
    CheckPasses,
    compare_sizes,
    explained,
    widened,
)
from dpsgd_explorer.dp.distributed.sharding import (
    gradients_of,
    is_sharded,
    reshard,
    stored_part,
)
from dpsgd_explorer.dp.modules import probe_inputs
from dpsgd_explorer.dp.modules.input_rows import called
from dpsgd_explorer.dp.modules.probe_inputs import SAMPLES, SEED
from dpsgd_explorer.dp.modules.pytree import tensors_of
from dpsgd_explorer.dp.modules.state import Changes, refuse_different
from dpsgd_explorer.errors import MixedLossError, UnsupportedModuleError

#: Norms up to this may be nothing but the bound of what underflow takes off a norm.
LEAST_NORM = 1e-12
#: Standard deviation of the rows that change: large, so that a weak mix shows.
OTHERS_SCALE = 10.0


class SafetyCheck(CheckPasses):
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

    def run(self) -> None:
        """Raise UnsupportedModuleError unless all four conditions hold."""
        self._gradient_engine.input_rows.forget()
        with self._session():
            call = self._random_call(SEED)
            self._module.eval()
            fewer = probe_inputs.without_last(call)
            with self._draws.at(None), self._pass(call):
                compare_sizes(self._gradient_engine, call, fewer)
            targets = self._random_targets(call)
            self._check_independence(call, targets)
            self._check_extreme_draws(call, targets)
            self._check_ignored_labels(call, targets)
            self._module.eval()
            self._check_targets(call)
            self._check_size(call, targets)
            # A sample that runs alone draws other numbers than in autograd's batch.
            alone = self._gradient_engine.runs_alone
            with self._draws.at(None if alone else self._draws.pattern):
                samples = self._samples(call, targets)
                self._check_sum(call, targets, samples)
                self._check_sensitivity(samples)

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
            if not self._same_rows(samples, others, [i]):
                raise UnsupportedModuleError(self._mixing_refusal(call, calls))

    def _check_extreme_draws(self, call: Any, targets: Any) -> None:
        """Check independence where numbers that the module draws are extreme."""
        other = self._random_call(SEED + 1, scale=OTHERS_SCALE)
        moved = probe_inputs.rotated(targets)
        # In batch j row j is another one; two batches share the row that is in neither.
        batches = [
            (
                probe_inputs.keep_row(other, call, j),
                probe_inputs.keep_row(moved, targets, j),
            )
            for j in range(SAMPLES)
        ]
        for pattern in patterns(self._draws.numbers):
            # Gradients of extreme draws may be infinite; training leaves them out.
            with self._draws.at(pattern), suppress(NotFiniteError):
                self._compare_batches(batches, pattern)

    def _compare_batches(self, batches: list[Any], pattern: Pattern) -> None:
        passes = [self._samples_and_changes(*batch) for batch in batches]
        for i in range(SAMPLES):
            j, k = (i + 1) % SAMPLES, (i + 2) % SAMPLES
            (first, changes), (second, new) = passes[j], passes[k]
            refuse_different(self._module, changes, new)
            if not self._same_rows(first, second, [i]):
                calls = {i: batches[k][0]}
                raise UnsupportedModuleError(
                    self._mixing_refusal(batches[j][0], calls, pattern)
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
        outputs, others = map(self._outputs, (call, self._random_call(SEED + 1)))
        with explained(self._gradient_engine):
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
        with self._draws.at(None):
            samples, changes = self._samples_and_changes(call, targets)
            fewer, new = self._samples_and_changes(
                *probe_inputs.without_last((call, targets))
            )
        refuse_different(self._module, changes, new, sizes=True)
        if not self._same_rows(samples, fewer, range(SAMPLES - 1)):
            raise UnsupportedModuleError(self._size_refusal())
        self._module.eval()

    def _check_sum(self, call: Any, targets: Any, samples: Samples) -> None:
        named = {n: p for n, p in self._module.named_parameters() if p.requires_grad}
        expected = self._reference(call, targets, named)
        largest = 0.0
        apart = dict.fromkeys(named, 0.0)
        reached: set[str] = set()
        for name, total in self._sums(samples):
            reached.add(name)
            largest = max(largest, largest_entry(total))
            own, reference = (
                stored_part(total, named[name], self._ranks),
                expected[name],
            )
            difference = (
                largest_entry(own)
                if reference is None
                else largest_difference(own, reference)
            )
            if not difference <= apart[name]:  # NaN too
                apart[name] = difference
        if not math.isfinite(largest):
            raise NotFiniteError
        for name, reference in expected.items():
            if reference is not None and name not in reached:
                apart[name] = largest_entry(reference)  # of no layer's own forward
        limit = self._tolerance * largest
        wrong = [i for i, name in enumerate(named, 1) if not apart[name] <= limit]
        worst = self._ranks.largest(wrong[0] if wrong else 0)  # on any rank
        if worst:
            alone = self._gradient_engine.runs_alone
            other_engine = "" if alone else 'use engine="microbatch", '
            raise UnsupportedModuleError(
                f"the per-sample gradients of {[*named][worst - 1]} do not add up to "
                f"autograd's: {self._suspect([*named][worst - 1])}"
                "the parameter is used outside the forward of its layer, "
                "or the loss that the module returns is not a "
                f"{self._gradient_engine.loss_reduction} over samples, which "
                f"loss_reduction requires. Call the layer instead, {other_engine}or "
                "change loss_reduction."
            )

    def _suspect(self, parameter: str) -> str:
        """Return the first cause to consider: a registered rule of the parameter."""
        layer = parameter.rpartition(".")[0]
        kind = _registered(self._gradient_engine.rules.get(layer))
        return (
            f"{kind}, the registered rule of its layer, is wrong, or " if kind else ""
        )

    def _suspects(self) -> str:
        """Return the classes of the registered rules; without them, of some rule."""
        rules = self._gradient_engine.rules.values()
        kinds = sorted({kind for rule in rules if (kind := _registered(rule))})
        return f"the layer rule {' or '.join(kinds)}" if kinds else "a layer rule"

    def _sums(self, samples: Samples) -> Iterator[tuple[str, Tensor]]:
        """Yield each parameter's gradient of the loss, by both paths of its rule."""
        parameters = self._gradient_engine.parameters()
        weights = dict.fromkeys(parameters, torch.ones(SAMPLES))
        scale = self._gradient_engine.gradient_scale(SAMPLES)
        for totals in chain(
            self._weighted(samples, weights), summed_rows(samples, parameters)
        ):
            for name, total in totals.items():
                yield name, total.div_(scale)

    def _reference(
        self, call: Any, targets: Any, named: dict[str, nn.Parameter]
    ) -> dict[str, Tensor | None]:
        """Return autograd's gradients by name; in float32 where the model is in less.

        torch's own sums over positions in bfloat16 are further from the truth than any
        tolerance that would still show a mistake.
        """
        with self._unwatched():
            reshard(self._module)
            if self._tolerance > TOLERANCE and not is_sharded(self._module):
                # A module that converts to a dtype by itself cannot run in another.
                with suppress(*FAILURES):
                    return self._wide_reference(call, targets, named)
            with self._pass(call):
                loss = self._loss(called(self._module, call), call, targets)
                found = gradients_of(loss, [*named.values()])
        return dict(zip(named, found, strict=True))

    def _wide_reference(
        self, call: Any, targets: Any, named: dict[str, nn.Parameter]
    ) -> dict[str, Tensor | None]:
        values = widened(
            dict(self._module.named_buffers()) | dict(self._module.named_parameters())
        )
        trained = {name: values[name].detach().requires_grad_() for name in named}
        device = next(iter(named.values())).device.type
        call, targets = widened(call), widened(targets)
        with self._draws.of_pass(SAMPLES), torch.autocast(device, enabled=False):
            run = partial(functional_call, self._module, values | trained)
            outputs = called(run, call)
            loss = self._loss(outputs, call, targets)
            found = gradients_of(loss, [*trained.values()])
        return dict(zip(named, found, strict=True))

    def _check_sensitivity(self, samples: Samples) -> None:
        # Half of the smallest norm: every sample is shortened, so every norm is tested.
        squared = joined(map(squared_norms_of, samples))
        norms = self._clipper.norms(squared)
        measured = norms[norms > LEAST_NORM]
        bound = float(measured.min()) / 2 if len(measured) else 1.0
        factors = self._clipper.with_bound(bound).factors(squared, norms)
        for i in range(SAMPLES):
            row = slice(i, i + 1)
            weights = {unit: factor[row] for unit, factor in factors.items()}
            sample = chosen(samples, range(SAMPLES)[row])
            lengths = [
                float(torch.linalg.vector_norm(total))
                for totals in self._weighted(sample, weights)
                for total in totals.values()
            ]
            length = math.hypot(*lengths) / bound
            if not length <= 1 + self._tolerance:
                raise UnsupportedModuleError(
                    "a clipped gradient must not be longer than max_grad_norm, got "
                    f"{length:.3g} times the bound: {self._suspects()} is wrong."
                )

    def _weighted(
        self, samples: Samples, weights: Mapping[str, Tensor]
    ) -> Iterator[Rows]:
        parameters = self._gradient_engine.parameters()
        return weighted_parts(samples, weights, parameters)

    def _samples_and_changes(self, call: Any, targets: Any) -> tuple[Samples, Changes]:
        """Return the gradients of a pass and its changes of the module's state."""
        samples = self._samples(call, targets)
        return samples, self._state.changes()

    def _same_rows(self, first: Samples, second: Samples, rows: Iterable[int]) -> bool:
        """Whether two passes' gradients of some samples are equal, but for rounding."""
        largest, apart = [0.0], [0.0]
        parameters = self._gradient_engine.parameters()
        for i in rows:  # one after the other: a row is as large as the model
            one, other = (chosen(each, range(i, i + 1)) for each in (first, second))
            for entry, difference in differences(one, other, parameters):
                largest.append(entry)
                apart.append(difference)
        return max(apart) <= self._tolerance * max(largest)

    def _mixing_refusal(
        self, call: Any, calls: Mapping[int, Any], pattern: Pattern | None = None
    ) -> str:
        return describe_mixing(self._module, call, calls, self._draws, pattern)


def _registered(rule: object) -> str | None:
    """Return the class of a rule from outside of this package; None for other rules."""
    kind = type(rule)
    is_ours = kind.__module__.partition(".")[0] in {"builtins", "dpsgd_explorer"}
    return None if is_ours else kind.__name__
