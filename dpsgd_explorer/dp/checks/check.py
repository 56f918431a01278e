"""The safety check: measures on random inputs whether a model mixes samples.

DP-SGD clips the gradient of each sample.  Clipping bounds a sample's influence only if
no other sample's gradient depends on that sample.  The types of the layers do not show
such a dependence: a frozen batch norm mixes samples, and so may three lines of a user's
forward.  The check therefore compares gradients, on random inputs that are independent
of the data.  It requires four conditions:

1. If all samples but i change, the gradient of sample i stays equal.  No stored value
   of the module depends on the samples.  (Modules are in training mode.)
2. Gradients and stored values do not depend on the number of samples.  So the loss has
   the reduction ``loss_reduction``.  (Random draws have their expected values, since
   batches of two sizes would draw different masks.)
3. The per-sample gradients add up to the gradients of autograd.
4. No clipped gradient has a norm above the clipping bound.

The check can refute these conditions, but not prove them: it misses a dependence that
random inputs do not show.

Gradients are computed layer by layer, which limits the memory.  For a sharded model all
ranks run the check together, with equal inputs, and each rank compares its shard of the
sums.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
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
    materialized_sums,
    squared_norms_of,
    weighted_parts,
)
from dpsgd_explorer.dp.checks.loss.target import TargetCheck
from dpsgd_explorer.dp.checks.mixing_module import describe_mixing
from dpsgd_explorer.dp.checks.passes import (
    MODULE_ERRORS,
    TOLERANCE,
    CheckPasses,
    compare_sizes,
    explained_errors,
    in_float32,
)
from dpsgd_explorer.dp.distributed.sharding import (
    gradients_of,
    is_sharded,
    reshard,
    stored_part,
)
from dpsgd_explorer.dp.engines.base import full_name
from dpsgd_explorer.dp.modules import probe_inputs
from dpsgd_explorer.dp.modules.input_rows import call_module
from dpsgd_explorer.dp.modules.probe_inputs import SAMPLES, SEED
from dpsgd_explorer.dp.modules.pytree import tensors_of
from dpsgd_explorer.dp.modules.state import Changes, check_equal_changes
from dpsgd_explorer.errors import MixedLossError, UnsupportedModuleError

#: Smallest norm that may decide the clipping bound of the check.  A smaller norm may
#: consist of the bound on underflow alone, which norms include.
MIN_NORM = 1e-12
#: Standard deviation of the samples that replace others.  It is larger than the 1 of
#: the first batch, so that a weak dependence on other samples exceeds round-off.
OTHERS_STD = 10.0


class SafetyCheck(CheckPasses):
    """Checks one module under one gradient engine, and restores the module's state.

    Args:
        gradient_engine: A started engine, which computes the per-sample gradients.
        clipper: The clipper of these gradients.
        args, kwargs: Arguments of a call of the module; only shapes and dtypes are
            read.
        ranks: The processes that run the check together.
        loss_fn: ``loss_fn(outputs, targets)``; if None, the outputs are checked under a
            random linear loss, and the user's loss is not checked.
        targets: An example of the second argument of ``loss_fn``; only shapes and
            dtypes are read.
    """

    def run(self) -> None:
        """Raises UnsupportedModuleError unless all four conditions hold."""
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
            # An engine that runs one sample at a time draws other numbers than autograd
            # in one batch.  Only expected values agree.
            alone = self._gradient_engine.runs_alone
            with self._draws.at(None if alone else self._draws.pattern):
                samples = self._samples(call, targets)
                self._check_sum(call, targets, samples)
                self._check_sensitivity(samples)
                self._check_registered_rules(call, targets)

    def _check_independence(self, call: Any, targets: Any) -> None:
        self._module.train()  # statistics are often stored in training mode only
        samples, changes = self._samples_and_changes(call, targets)
        other = self._random_call(SEED + 1, scale=OTHERS_STD)
        moved = probe_inputs.rotated(targets)
        calls = {i: probe_inputs.keep_row(call, other, i) for i in range(SAMPLES)}
        for i, changed in calls.items():
            other_targets = probe_inputs.keep_row(targets, moved, i)
            others, new = self._samples_and_changes(changed, other_targets)
            check_equal_changes(self._module, changes, new)
            if not self._same_rows(samples, others, [i]):
                raise UnsupportedModuleError(self._mixing_message(call, calls))

    def _check_extreme_draws(self, call: Any, targets: Any) -> None:
        """Checks independence with the module's random draws at extreme values."""
        other = self._random_call(SEED + 1, scale=OTHERS_STD)
        moved = probe_inputs.rotated(targets)
        # Batch j has another row j.  Of three batches, j and k share row i, and differ
        # in all others.
        batches = [
            (
                probe_inputs.keep_row(other, call, j),
                probe_inputs.keep_row(moved, targets, j),
            )
            for j in range(SAMPLES)
        ]
        for pattern in patterns(self._draws.numbers):
            # Extreme draws may make gradients infinite; training drops such gradients.
            with self._draws.at(pattern), suppress(NotFiniteError):
                self._compare_batches(batches, pattern)

    def _compare_batches(self, batches: list[Any], pattern: Pattern) -> None:
        passes = [self._samples_and_changes(*batch) for batch in batches]
        for i in range(SAMPLES):
            j, k = (i + 1) % SAMPLES, (i + 2) % SAMPLES
            (first, changes), (second, new) = passes[j], passes[k]
            check_equal_changes(self._module, changes, new)
            if not self._same_rows(first, second, [i]):
                calls = {i: batches[k][0]}
                raise UnsupportedModuleError(
                    self._mixing_message(batches[j][0], calls, pattern)
                )

    def _check_ignored_labels(self, call: Any, targets: Any) -> None:
        """Checks independence with some labels ignored, if the module takes labels."""
        if not self._labels or any(leaf.is_cuda for leaf in tensors_of(call)):
            return  # an index error on a GPU makes the device unusable to the process
        ignored = probe_inputs.with_ignored(call, self._labels)
        # If the graph shows a weighted mean, training rejects a batch with such labels.
        with suppress(MixedLossError):
            self._check_independence(ignored, targets)

    def _check_targets(self, call: Any) -> None:
        """Checks the loss alone, with targets of all classes and ignored targets."""
        if self._loss_fn is None:
            return
        outputs, others = map(self._outputs, (call, self._random_call(SEED + 1)))
        with explained_errors(self._gradient_engine):
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
        """Compares two batch sizes in training mode, with expected random draws."""
        self._module.train()
        with self._draws.at(None):
            samples, changes = self._samples_and_changes(call, targets)
            fewer, new = self._samples_and_changes(
                *probe_inputs.without_last((call, targets))
            )
        check_equal_changes(self._module, changes, new, sizes=True)
        if not self._same_rows(samples, fewer, range(SAMPLES - 1)):
            raise UnsupportedModuleError(self._size_message())
        self._module.eval()

    def _check_sum(self, call: Any, targets: Any, samples: Samples) -> None:
        """Checks that each parameter's sum is a gradient of autograd, in a precision.

        A deep model's bfloat16 gradients differ from its float32 gradients, because its
        activations do.  Autograd's bfloat16 gradients have larger round-off in sums
        over positions.  So one of the two references must agree.
        """
        named = {n: p for n, p in self._module.named_parameters() if p.requires_grad}
        wrong, worst = set(named), 0
        for expected in self._references(call, targets, named):
            wrong &= self._unlike(expected, named, samples)
            first = min(i for i, n in enumerate(named, 1) if n in wrong) if wrong else 0
            worst = self._ranks.largest(first)  # on any rank
            if not worst:
                break
        if worst:
            self._gradient_engine.fault = [*named][worst - 1].rpartition(".")[0]
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

    def _unlike(
        self,
        expected: Mapping[str, Tensor | None],
        named: Mapping[str, nn.Parameter],
        samples: Samples,
    ) -> set[str]:
        """Returns the names of the parameters whose sums differ from the expected."""
        largest = 0.0
        errors = dict.fromkeys(named, 0.0)
        reached: set[str] = set()
        for name, total in self._sums(samples):
            reached.add(name)
            largest = max(largest, largest_entry(total))
            shard = stored_part(total, named[name], self._ranks)
            reference = expected[name]
            error = (
                largest_entry(shard)
                if reference is None
                else largest_difference(shard, reference)
            )
            if not error <= errors[name]:  # also if the error is NaN
                errors[name] = error
        if not math.isfinite(largest):
            raise NotFiniteError
        for name, reference in expected.items():
            if reference is not None and name not in reached:
                errors[name] = largest_entry(reference)  # used outside of any layer
        limit = self._tolerance * largest
        return {name for name, error in errors.items() if not error <= limit}

    def _suspect(self, parameter: str) -> str:
        """Returns the most likely cause, a layer rule of the user; "" without one."""
        layer = parameter.rpartition(".")[0]
        kind = _registered(self._gradient_engine.rules.get(layer))
        return (
            f"{kind}, the registered rule of its layer, is wrong, or " if kind else ""
        )

    def _suspects(self) -> str:
        """Returns the layer rules that the user registered, in words."""
        rules = self._gradient_engine.rules.values()
        kinds = sorted({kind for rule in rules if (kind := _registered(rule))})
        return f"the layer rule {' or '.join(kinds)}" if kinds else "a layer rule"

    def _sums(self, samples: Samples) -> Iterator[tuple[str, Tensor]]:
        """Yields the gradient of the loss for each parameter."""
        scale = self._gradient_engine.gradient_scale(SAMPLES)
        for totals in self._compare_methods(samples):
            for name, total in totals.items():
                yield name, total.div_(scale)

    def _references(
        self, call: Any, targets: Any, named: dict[str, nn.Parameter]
    ) -> Iterator[dict[str, Tensor | None]]:
        """Yields the gradients of autograd by name: in float32, then in the module's.

        Torch sums bfloat16 gradients over positions in bfloat16.  Their round-off may
        be larger than any tolerance that would still show a mistake.
        """
        if self._tolerance > TOLERANCE and not is_sharded(self._module):
            found = None
            # A module whose forward converts to a fixed dtype may fail in float32.
            with suppress(*MODULE_ERRORS), self._without_engine():
                found = self._float32_reference(call, targets, named)
            if found is not None:
                yield found
        with self._without_engine():
            reshard(self._module)
            with self._pass(call):
                loss = self._loss(call_module(self._module, call), call, targets)
                gradients = gradients_of(loss, [*named.values()])
        yield dict(zip(named, gradients, strict=True))

    def _float32_reference(
        self, call: Any, targets: Any, named: dict[str, nn.Parameter]
    ) -> dict[str, Tensor | None]:
        values = in_float32(
            dict(self._module.named_buffers()) | dict(self._module.named_parameters())
        )
        trained = {name: values[name].detach().requires_grad_() for name in named}
        device = next(iter(named.values())).device.type
        call, targets = in_float32(call), in_float32(targets)
        with self._draws.of_pass(SAMPLES), torch.autocast(device, enabled=False):
            run = partial(functional_call, self._module, values | trained)
            outputs = call_module(run, call)
            loss = self._loss(outputs, call, targets)
            gradients = gradients_of(loss, [*trained.values()])
        return dict(zip(named, gradients, strict=True))

    def _check_sensitivity(self, samples: Samples) -> None:
        # The bound is half of the smallest norm: every sample is clipped, so the check
        # tests every norm.
        squared = joined(map(squared_norms_of, samples))
        norms = self._clipper.norms(squared)
        measured = norms[norms > MIN_NORM]
        bound = float(measured.min()) / 2 if len(measured) else 1.0
        factors = self._clipper.with_bound(bound).factors(squared, norms)
        for i in range(SAMPLES):
            row = slice(i, i + 1)
            weights = {unit: factor[row] for unit, factor in factors.items()}
            sample = chosen(samples, range(SAMPLES)[row])
            clipped_norms = [
                float(torch.linalg.vector_norm(total))
                for totals in self._weighted(sample, weights)
                for total in totals.values()
            ]
            ratio = math.hypot(*clipped_norms) / bound
            if not ratio <= 1 + self._tolerance:
                raise UnsupportedModuleError(
                    "a clipped gradient must not be longer than max_grad_norm, got "
                    f"{ratio:.3g} times the bound: {self._suspects()} is wrong."
                )

    def _compare_methods(self, samples: Samples) -> Iterator[Rows]:
        """Compares norms and weighted sums of each layer with materialized gradients.

        A mistake in one layer may be too small to show in the whole gradient, and a sum
        may be right for equal weights alone.

        Yields:
            The sums of the gradients by name, for a few parameters at a time.
        """
        parameters = self._gradient_engine.parameters()
        weights = torch.linspace(0.5, 1.5, SAMPLES)
        by_unit = dict.fromkeys(parameters, weights)
        materialized = materialized_sums(samples, parameters, weights)
        squares: dict[str, list[float]] = {}
        errors: dict[str, float] = {}
        largest = 0.0
        for found, sums in zip(
            self._weighted(samples, by_unit), materialized, strict=True
        ):
            for name, total in sums.weighted.items():
                largest = max(largest, largest_entry(total))
                errors[name] = largest_difference(found[name], total)
            squares |= sums.squares
            yield sums.equal
        if not math.isfinite(largest):
            raise NotFiniteError
        limit = self._tolerance * largest
        self._check_method(
            [name for name, error in errors.items() if not error <= limit],
            [*errors],
            "the weighted sum of gradients must be that of the samples' gradients",
        )
        self._check_method(
            self._short_norms(samples, squares),
            [*parameters],
            "a norm must not be smaller than that of the sample's gradient",
        )

    def _short_norms(
        self, samples: Samples, squares: Mapping[str, list[float]]
    ) -> list[str]:
        """Returns the units with a norm below the norm of a materialized gradient."""
        short = []
        squared = joined(map(squared_norms_of, samples))
        for unit, names in self._gradient_engine.parameters().items():
            full_names = [full_name(unit, name) for name in names]
            columns = [squares[name] for name in full_names if name in squares]
            for i, norms in enumerate(zip(*columns, strict=True)):
                least = math.sqrt(sum(norms)) * (1 - self._tolerance)
                if not math.sqrt(float(squared[unit][i])) >= least:
                    short.append(unit)
                    break
        return short

    def _check_method(self, wrong: list[str], names: list[str], law: str) -> None:
        """Raises if there is a wrong name on any rank."""
        index = self._ranks.largest(1 + names.index(wrong[0]) if wrong else 0)
        if index:
            name = names[index - 1]
            raise UnsupportedModuleError(
                f"{law}; those of {name or 'the module'} are not: "
                f"{self._rule_of(name)} is wrong."
            )

    def _check_registered_rules(self, call: Any, targets: Any) -> None:
        """Checks the rules of the user with each norm method and equal positions.

        The shapes of a later batch may choose the other method.  Norms that lack the
        inner products of positions are too small mostly where positions are alike.
        """
        engine = self._gradient_engine
        if not any(map(_registered, engine.rules.values())):
            return
        for mode in ("ghost", "instantiate"):
            for inputs in (call, probe_inputs.with_equal_positions(call)):
                with engine.with_norm_method(mode):
                    for _ in self._compare_methods(self._samples(inputs, targets)):
                        pass

    def _rule_of(self, name: str) -> str:
        """Returns the registered rule of a parameter or its layer, in words."""
        rules = self._gradient_engine.rules
        layers = name, name.rpartition(".")[0]
        kinds = [kind for layer in layers if (kind := _registered(rules.get(layer)))]
        return f"the layer rule {kinds[0]}" if kinds else self._suspects()

    def _weighted(
        self, samples: Samples, weights: Mapping[str, Tensor]
    ) -> Iterator[Rows]:
        parameters = self._gradient_engine.parameters()
        return weighted_parts(samples, weights, parameters)

    def _samples_and_changes(self, call: Any, targets: Any) -> tuple[Samples, Changes]:
        """Returns the gradients of a pass, and its changes to stored values."""
        samples = self._samples(call, targets)
        return samples, self._state.changes()

    def _same_rows(self, first: Samples, second: Samples, rows: Iterable[int]) -> bool:
        """Returns True if two passes have equal gradients of rows, up to round-off."""
        entries, errors = [0.0], [0.0]
        parameters = self._gradient_engine.parameters()
        # One row at a time: the gradient of a row has the size of the model.
        for i in rows:
            row, other_row = (chosen(p, range(i, i + 1)) for p in (first, second))
            for entry, error in differences(row, other_row, parameters):
                entries.append(entry)
                errors.append(error)
        return max(errors) <= self._tolerance * max(entries)

    def _mixing_message(
        self, call: Any, calls: Mapping[int, Any], pattern: Pattern | None = None
    ) -> str:
        return describe_mixing(self._module, call, calls, self._draws, pattern)


def _registered(rule: object) -> str | None:
    """Returns the class of a layer rule from outside of this package, or None."""
    kind = type(rule)
    is_ours = kind.__module__.partition(".")[0] in {"builtins", "dpsgd_explorer"}
    return None if is_ours else kind.__name__
