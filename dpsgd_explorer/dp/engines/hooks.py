"""Per-sample clipping from one forward and one backward (``engine="hooks"``).

Forward keeps each trainable layer's input, backward its output gradient; autograd is
asked for no parameter gradient at all.  Norms and the clipped sum are then made from
these two by the layer's rule, in pieces of the batch that fit in memory.

Source: Bu et al. (2022), arXiv:2210.00038 (book-keeping).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from dpsgd_explorer.dp.engines.backprop_capture import start_graph
from dpsgd_explorer.dp.engines.base import (
    GradientEngine,
    GradientSums,
    PerSampleGradients,
    full_name,
)
from dpsgd_explorer.dp.engines.batch_dims import BatchDims
from dpsgd_explorer.dp.engines.coverage import Coverage
from dpsgd_explorer.dp.engines.layer_calls import (
    LayerCall,
    LayerCallGroup,
    added_by_layer,
    grouped,
)
from dpsgd_explorer.dp.engines.norm_methods import (
    ClippingMode,
    NormChoice,
    NormMethodSelector,
    NormRequest,
)
from dpsgd_explorer.dp.engines.recording import (
    ForwardRecording,
    PendingLayerCall,
    ReplayCallRecorder,
)
from dpsgd_explorer.dp.kernels.precision import accumulation_dtype, in_precision
from dpsgd_explorer.dp.layers.base import BadInputError, GradientRule
from dpsgd_explorer.dp.layers.rewrite import Rewrite
from dpsgd_explorer.dp.modules.forward_patch import ForwardPatch
from dpsgd_explorer.dp.modules.hooks import ModuleHook
from dpsgd_explorer.dp.modules.pytree import map_tensors
from dpsgd_explorer.errors import PrivacyError

#: Bytes of per-sample gradients that are held at once.
CHUNK_BYTES = 16 * 2**20


class DeferredGradients(PerSampleGradients):
    """The samples of one backward, as the layers' inputs and output gradients."""

    def __init__(self, groups: list[LayerCallGroup], size: int, scale: float) -> None:
        self._groups = groups
        self._size = size
        self._scale = scale

    def __len__(self) -> int:
        return self._size

    def squared_norms(self) -> dict[str, Tensor]:
        total = added_by_layer(
            each for group in self._groups for each in group.squared_norms().items()
        )
        scaled = torch._foreach_mul(list(total.values()), self._scale**2)
        return dict(zip(total, scaled, strict=True))

    def add_weighted_gradients(
        self, weights: Mapping[str, Tensor], sums: GradientSums
    ) -> None:
        factors = {id(w): w * self._scale for w in weights.values()}
        scaled = {layer: factors[id(w)] for layer, w in weights.items()}
        for group in self._groups:
            group.add_weighted(scaled, sums)

    def per_sample_gradients(self) -> dict[str, Tensor]:
        total: dict[str, Tensor] = {}
        for group in self._groups:
            for (layer, local), gradient in group.per_sample_gradients().items():
                name = full_name(layer, local)
                gradient = gradient if self._scale == 1.0 else gradient * self._scale
                total[name] = total[name] + gradient if name in total else gradient
        return total

    def take(self, index: Tensor | slice) -> Self:
        size = len(torch.empty(self._size)[index])
        groups = [group.take(index) for group in self._groups]
        return type(self)(groups, size, self._scale)

    def split_by_memory(self) -> tuple[Self | None, Iterator[Self]]:
        """Take what is small together: each piece of the batch has a price in calls."""
        needed = {group: self._size * group.gradient_bytes() for group in self._groups}
        if sum(needed.values()) <= CHUNK_BYTES:
            return None, iter((self,))
        small, room = [], CHUNK_BYTES // 4
        for group in sorted(needed, key=lambda each: needed[each]):
            room -= needed[group]
            if room < 0:
                break
            small.append(group)
        large = self._of([group for group in self._groups if group not in small])
        return self._of(small) if small else None, large._pieces()

    def _of(self, groups: list[LayerCallGroup]) -> Self:
        return type(self)(groups, self._size, self._scale)

    def _pieces(self) -> Iterator[Self]:
        sample_bytes = sum(group.gradient_bytes() for group in self._groups)
        size = max(1, CHUNK_BYTES // sample_bytes)
        for start in range(0, self._size, size):
            yield self.take(slice(start, start + size))


class HooksEngine(GradientEngine):
    """Forward hooks on the trainable layers, taps on their outputs."""

    def __init__(
        self,
        module: nn.Module,
        *,
        clipping_mode: ClippingMode,
        loss_reduction: str,
        by_parameter: bool = False,
    ) -> None:
        super().__init__(
            module,
            clipping_mode=clipping_mode,
            loss_reduction=loss_reduction,
            by_parameter=by_parameter,
        )
        self._coverage = Coverage(module, by_parameter=by_parameter)
        self._norm_methods = NormMethodSelector(clipping_mode)
        self._batch_dims = BatchDims()
        self._handles: list[RemovableHandle] = []
        self._patches: list[ForwardPatch] = []
        self._recording: ForwardRecording | None = None
        self._asked: dict[str, list[NormRequest]] = {}
        self._open_pass = False
        self._fast_attention = True

    def parameters(self) -> dict[str, dict[str, nn.Parameter]]:
        return self._coverage.parameters

    def explain(self) -> list[NormChoice]:
        """Return what was chosen for each use at the last pass, in forward order."""
        return [
            self._norm_methods.explain(each)
            for own in self._asked.values()
            for each in own
        ]

    def remedy(self, error: Exception) -> str:
        shared = self._recording.shared_layers if self._recording is not None else []
        if not shared or not isinstance(error, RuntimeError):
            return super().remedy(error)
        return (
            f"The output of {', '.join(shared)} is the same for all samples, and this "
            "engine adds a dimension of samples to it. Let the layer see one row per "
            'sample (expand its input), or use engine="vmap" or "microbatch".'
        )

    @contextmanager
    def learning_batch_dims(self) -> Iterator[None]:
        """Compare the shapes of passes of different sizes meanwhile."""
        self._batch_dims.forget()
        self._batch_dims.learning = True
        try:
            yield
        finally:
            self._batch_dims.learning = False

    def start(self) -> None:
        self._handles = [
            self.module.register_forward_pre_hook(
                ModuleHook(self._open), with_kwargs=True
            )
        ]
        for name, rule in self._coverage.rules.items():
            self._watch_layer(name, rule)
        # Last, since the module may itself be one of the layers.
        self._handles.append(
            self.module.register_forward_hook(ModuleHook(self._close), always_call=True)
        )

    def stop(self) -> None:
        for handle in self._handles:
            handle.remove()
        for stand_in in self._patches:
            stand_in.remove()
        self._handles, self._patches = [], []
        self._replace_recording(None)

    def _watch_layer(self, name: str, rule: Any) -> None:
        layer = self._coverage.layers[name]
        if isinstance(rule, Rewrite):
            self._patches.append(ForwardPatch(layer, self._rewritten(name, rule)))
            return
        before = ModuleHook(self._before_layer(name, rule))
        after = ModuleHook(self._after_layer(name, rule))
        self._handles += [
            layer.register_forward_pre_hook(before, with_kwargs=True),
            layer.register_forward_hook(after, with_kwargs=True, always_call=True),
        ]

    def _open(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        if self._open_pass or not torch.is_grad_enabled() or _in_backward():
            return
        batch_size = self.prepare(args, kwargs)
        self._replace_recording(
            ForwardRecording(
                self._coverage, self._batch_dims, batch_size, self._deliver
            )
        )
        self._ask_for_parameter_gradients(False)
        self._fast_attention = torch.backends.mha.get_fastpath_enabled()
        torch.backends.mha.set_fastpath_enabled(False)
        self._open_pass = True

    def _close(self, module: nn.Module, args: Any, output: Any) -> None:
        if self._open_pass and not _in_backward():
            self._open_pass = False
            torch.backends.mha.set_fastpath_enabled(self._fast_attention)
            self._ask_for_parameter_gradients(True)
            self.outputs.watch(output)
            if self._recording is not None:
                self.watch_loss(output, self._recording.batch_size)

    def _replace_recording(self, new: ForwardRecording | None) -> None:
        if self._recording is not None:
            self._recording.taps.close(
                "backward came too late: the module has run again since, or the engine "
                "was detached. Call backward before the next forward pass."
            )
        self._recording = new

    def _ask_for_parameter_gradients(self, wanted: bool) -> None:
        for parameters in self._coverage.parameters.values():
            for parameter in parameters.values():
                parameter.requires_grad_(wanted)

    def _now_recording(self) -> ForwardRecording | None:
        """Return the open recording, if this call belongs to it and can be trained."""
        return self._recording if self._open_pass and torch.is_grad_enabled() else None

    def _before_layer(
        self, name: str, rule: GradientRule[Any, Any]
    ) -> Callable[..., None]:
        own = self._coverage.own(name)

        def before(layer: nn.Module, args: Any, kwargs: Any = None) -> None:
            recording = self._now_recording()
            if recording is not None:
                # torch calls a hook that was taken away meanwhile, without kwargs: the
                # safety check does that to a model that is one layer.
                if kwargs is None:
                    return
                recording.check(name, rule, args, kwargs)
            elif self._replays():
                for parameter in own:
                    parameter.requires_grad_(False)

        return before

    def _after_layer(
        self, name: str, rule: GradientRule[Any, Any]
    ) -> Callable[..., Tensor | None]:
        own = self._coverage.own(name)

        def after(layer: nn.Module, args: Any, kwargs: Any, out: Any) -> Tensor | None:
            recording = self._now_recording()
            if recording is not None and out is not None:
                return recording.layer_call(name, rule, args, kwargs, out)
            if not self._replays():
                return None
            self._check_replay(name)
            for parameter in own:
                parameter.requires_grad_(True)
            return None if out is None else start_graph(out)

        return after

    def _rewritten(self, name: str, rule: Rewrite[Any]) -> Callable[..., Any]:
        layer = self._coverage.layers[name]

        def forward(own_forward: Callable[..., Any], args: Any, kwargs: Any) -> Any:
            recording = self._now_recording()
            if recording is not None:
                watch = recording.watch(name)
                try:
                    return rule.forward(layer, own_forward, watch, args, kwargs)
                except BadInputError as error:
                    raise recording.bad_input(name, error) from error
            if self._recording is None or not self._replays():
                return own_forward(*args, **kwargs)
            self._check_replay(name)
            silent = ReplayCallRecorder(self._recording, name)
            self._ask_for_parameter_gradients(False)
            try:
                return rule.forward(layer, own_forward, silent, args, kwargs)
            finally:
                self._ask_for_parameter_gradients(True)

        return forward

    def _check_replay(self, name: str) -> None:
        """Raise PrivacyError if a layer runs for the first time in backward."""
        if self._recording is None or not self._recording.has_seen(name):
            raise PrivacyError(
                f"{name or 'the module'} ran in backward and was hidden in forward, "
                "as reentrant checkpointing does; use checkpoint(..., "
                "use_reentrant=False)."
            )

    def _replays(self) -> bool:
        """Whether backward runs a checkpointed part of the recorded pass again."""
        return _in_backward() and torch.is_grad_enabled()

    def _deliver(self, pairs: list[tuple[PendingLayerCall, Tensor]]) -> None:
        recording = self._recording
        if recording is None:
            raise PrivacyError("gradients arrived for a pass that was not recorded.")
        self.report_loss()
        self._asked = {}
        uses = [self._use(recorded, gradient) for recorded, gradient in pairs]
        size = recording.batch_size
        samples = DeferredGradients(grouped(uses), size, self.gradient_scale(size))
        self.on_gradients(samples)

    def _use(self, recorded: PendingLayerCall, backprops: Tensor) -> LayerCall:
        """Return the use in its parameters' precision or better, and its way."""
        parameter = next(iter(recorded.parameters.values()))
        dtype = accumulation_dtype(parameter.dtype)
        activations = map_tensors(
            lambda x: in_precision(x, dtype), recorded.activations
        )
        name, rule, layer = recorded.name, recorded.rule, recorded.layer
        backprops = in_precision(backprops, dtype)
        asked = name, rule, layer, activations, backprops
        self._asked.setdefault(name, []).append(NormRequest.outline(*asked))
        return LayerCall(
            rule,
            layer,
            activations,
            backprops,
            recorded.targets,
            recorded.parameters,
            ghost=self._norm_methods.chooses_ghost(*asked),
            keeps=self._norm_methods.keeps_gradients(name),
        )


def _in_backward() -> bool:
    task: int = torch._C._current_graph_task_id()
    return task != -1
