"""Per-sample clipping from one forward and one backward (``engine="hooks"``).

Forward hooks save the input x [B, T, d] of each trainable layer; backward hooks capture
the gradient g [B, T, p] of the output.  Autograd computes no parameter gradient.  From
the pairs (x, g) a layer's rule computes norms [B] and, after clipping, the sum of
w_i g_i as one product over all samples.  For a linear layer this product is (w g)^T x,
as expensive as the ordinary weight gradient that autograd does not compute.

Ghost clipping (Li et al.; Lee and Kifer) runs backward a second time, on the losses
weighted by w_i.  Book-keeping (Bu et al.), the method of this module, stores g and
needs no second backward.

Sources: Bu et al. (2022), arXiv:2210.00038 (book-keeping); Lee and Kifer (2021),
arXiv:2009.03106 (clipping by reweighted losses); Li et al. (2022), arXiv:2110.05679
(ghost clipping); Yousefpour et al. (2021), arXiv:2109.12298 (Opacus: the hooks).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, Unpack

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from dpsgd_explorer.dp.backends import backend_of
from dpsgd_explorer.dp.backends.precision import accumulation_dtype, in_precision
from dpsgd_explorer.dp.distributed.sharding import is_sharded, reshard
from dpsgd_explorer.dp.engines.alone import AloneRewrite
from dpsgd_explorer.dp.engines.backprop_capture import start_graph
from dpsgd_explorer.dp.engines.base import EngineOptions, GradientEngine
from dpsgd_explorer.dp.engines.batch_dims import BatchDims
from dpsgd_explorer.dp.engines.call_groups import grouped
from dpsgd_explorer.dp.engines.call_recorders import (
    ForwardCallRecorder,
    ReplayCallRecorder,
)
from dpsgd_explorer.dp.engines.coverage import Coverage
from dpsgd_explorer.dp.engines.deferred_gradients import DeferredGradients
from dpsgd_explorer.dp.engines.layer_calls import LayerCall
from dpsgd_explorer.dp.engines.norm_choice import (
    NormChoice,
    chosen_ghost_norm,
    explained,
    mode_of,
    specs_of,
)
from dpsgd_explorer.dp.engines.recording import ForwardRecording, PendingLayerCall
from dpsgd_explorer.dp.layers.base import BadInputError, GradientRule
from dpsgd_explorer.dp.layers.rewrite import Rewrite
from dpsgd_explorer.dp.modules.forward_patch import ForwardPatch
from dpsgd_explorer.dp.modules.hooks import ModuleHook
from dpsgd_explorer.dp.modules.pytree import map_tensors, tensors_of
from dpsgd_explorer.errors import PrivacyError


class HooksEngine(GradientEngine):
    """Forward hooks on the trainable layers, captures on their outputs.

    In a pass, a hook before the module opens a recording, hooks on the layers record
    their calls, and a hook after the module closes the recording.  The capture delivers
    the backprops when backward ends.
    """

    def __init__(self, module: nn.Module, **options: Unpack[EngineOptions]) -> None:
        super().__init__(module, **options)
        self._coverage = Coverage(module, by_parameter=self.by_parameter)
        self._trained = [
            p for unit in self._coverage.parameters.values() for p in unit.values()
        ]
        self._sharded = is_sharded(module)
        if self._sharded:
            self._coverage.check_shardable()
        self._batch_dims = BatchDims()
        self._handles: list[RemovableHandle] = []
        self._patches: list[ForwardPatch] = []
        self._recording: ForwardRecording | None = None
        self._choices: dict[str, list[Callable[[], NormChoice]]] = {}
        self._open_pass = self._replayed = False
        self._fast_attention = True
        self._modes: dict[str, str] = {}
        self._note_alone()

    @property
    def rules(self) -> Mapping[str, object]:
        """Rule of each layer, by the layer's name."""
        return self._coverage.rules

    def parameters(self) -> dict[str, dict[str, nn.Parameter]]:
        return self._coverage.parameters

    @contextmanager
    def with_norm_method(self, mode: str) -> Iterator[None]:
        modes = self._modes
        self._modes = dict.fromkeys(modes, mode)
        try:
            yield
        finally:
            self._modes = modes

    def explain(self) -> list[NormChoice]:
        """Returns the norm method of each layer call of the last pass, by layer."""
        return [choice() for choices in self._choices.values() for choice in choices]

    def remedy(self, error: Exception) -> str:
        shared = self._recording.shared_layers if self._recording is not None else []
        if not shared or not isinstance(error, RuntimeError):
            return super().remedy(error)
        return (
            f"The output of {', '.join(shared)} is the same for all samples, but this "
            "engine needs one row per sample. Expand the layer's input to one row per "
            'sample, or use engine="vmap" or "microbatch".'
        )

    def adapt(self) -> bool:
        fault, coverage = self.fault, self._coverage
        is_wider = (
            fault is not None
            and not self._sharded
            and coverage.run_alone(fault, failed=self._failed)
        )
        if not is_wider and not coverage.reset():
            return False
        try:
            self.stop()
            self._note_alone()
        finally:
            self.start()  # also after an interrupt
        return is_wider

    def _note_alone(self) -> None:
        rules = self._coverage.rules
        self._modes = {name: mode_of(self.clipping_mode, name) for name in rules}
        alone = [rule for rule in rules.values() if isinstance(rule, AloneRewrite)]
        self.runs_parts_alone = bool(alone)
        self.runs_alone = any(rule.one_by_one for rule in alone)
        self.fault, self._failed = None, False

    @contextmanager
    def learning_batch_dims(self) -> Iterator[None]:
        """Compares the shapes of passes of several batch sizes inside the context."""
        self._batch_dims.forget()
        self._batch_dims.learning = True
        try:
            yield
        finally:
            self._batch_dims.learning = False

    def start(self) -> None:
        # Torch runs no hook after a KeyboardInterrupt, so hooks alone cannot restore
        # the module.
        self._patches.append(ForwardPatch(self.module, self._guarded, "_call_impl"))
        self._handles = [
            self.module.register_forward_pre_hook(
                # The pass must be open before a sharded module gathers its parameters.
                ModuleHook(self._open),
                prepend=self._sharded,
                with_kwargs=True,
            )
        ]
        for name, rule in self._coverage.rules.items():
            self._watch_layer(name, rule)
        # This hook is the last, because the module may be a layer, and the hook of a
        # layer needs an open pass.
        self._handles.append(
            self.module.register_forward_hook(ModuleHook(self._close), always_call=True)
        )

    def stop(self) -> None:
        for handle in self._handles:
            handle.remove()
        for patch in reversed(self._patches):
            patch.remove()
        self._handles, self._patches = [], []
        self._replace_recording(None)
        self.restore()

    def restore(self) -> None:
        if self._open_pass or self._replayed:
            self._require_parameter_gradients(True)
        if self._open_pass:
            torch.backends.mha.set_fastpath_enabled(self._fast_attention)
        self._open_pass = self._replayed = False

    def _guarded(self, call: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        self.fault, self._failed = None, False
        try:
            return call(*args, **kwargs)
        except BaseException:
            self.restore()
            if self._recording is not None:
                self.fault, self._failed = self._recording.place(), True
            raise

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
        """Opens a recording, unless the pass is nested, in backward or has no grad."""
        if self._open_pass or not torch.is_grad_enabled() or _in_backward():
            return
        if self._sharded:
            reshard(self.module)
        batch_size = self.begin_pass(args, kwargs)
        self._replace_recording(
            ForwardRecording(
                self._coverage,
                self._batch_dims,
                batch_size,
                self._deliver,
                whole=not self._sharded,
            )
        )
        self._fast_attention = torch.backends.mha.get_fastpath_enabled()
        self._open_pass, self._replayed = True, False
        # Without these flags autograd builds no path to the parameters, and backward
        # computes no weight gradient.  The saved time pays for the clipped sum.
        self._require_parameter_gradients(False)
        # torch runs its fused attention if no parameter requires a gradient, and fused
        # attention has no derivative.
        torch.backends.mha.set_fastpath_enabled(False)

    def _close(self, module: nn.Module, args: Any, output: Any) -> None:
        if self._open_pass and not _in_backward():
            self.restore()
            if self._recording is not None:
                self.watch_loss(output, self._recording.batch_size)

    def _replace_recording(self, new: ForwardRecording | None) -> None:
        if self._recording is not None:
            self._recording.capture.close(
                "backward came too late: the module has run again since, or the engine "
                "was detached. Call backward before the next forward pass."
            )
        self._recording = new

    def _require_parameter_gradients(self, required: bool) -> None:
        for parameter in self._trained:
            parameter.requires_grad = required

    def _current_recording(self) -> ForwardRecording | None:
        """Returns the open recording; None outside a pass, and under ``no_grad``."""
        return self._recording if self._open_pass and torch.is_grad_enabled() else None

    def _before_layer(
        self, name: str, rule: GradientRule[Any, Any]
    ) -> Callable[..., None]:
        direct = self._coverage.direct_parameters(name)

        def before(layer: nn.Module, args: Any, kwargs: Any = None) -> None:
            recording = self._current_recording()
            if recording is not None:
                # If a hook is removed during the call, torch still calls it, without
                # kwargs.  The safety check removes hooks of a model that is one layer.
                if kwargs is None:
                    return
                try:
                    rule.check(layer, args, kwargs)
                except BadInputError as error:
                    raise recording.bad_input(name, error) from error
            elif self._replays():
                self._replayed = True
                _require_gradients(layer, direct, False)

        return before

    def _after_layer(
        self, name: str, rule: GradientRule[Any, Any]
    ) -> Callable[..., Tensor | None]:
        direct = self._coverage.direct_parameters(name)

        def after(layer: nn.Module, args: Any, kwargs: Any, out: Any) -> Tensor | None:
            recording = self._current_recording()
            if recording is not None and out is not None:
                try:
                    return recording.layer_call(name, rule, args, kwargs, out)
                except BadInputError as error:
                    raise recording.bad_input(name, error) from error
            if not self._replays():
                return None
            self._check_replay(name)
            _require_gradients(layer, direct, True)
            return None if out is None else start_graph(out)

        return after

    def _rewritten(self, name: str, rule: Rewrite[Any]) -> Callable[..., Any]:
        layer = self._coverage.layers[name]

        def forward(original: Callable[..., Any], args: Any, kwargs: Any) -> Any:
            recording = self._current_recording()
            if recording is not None:
                recorder = ForwardCallRecorder(recording, name)
                try:
                    return rule.forward(layer, original, recorder, args, kwargs)
                except BadInputError as error:
                    raise recording.bad_input(name, error) from error
                except Exception:
                    recording.note_failure(name)
                    raise
            if self._recording is None or not self._replays():
                return original(*args, **kwargs)
            self._check_replay(name)
            replay = ReplayCallRecorder(self._recording, name)
            self._replayed = True
            self._require_parameter_gradients(False)
            try:
                return rule.forward(layer, original, replay, args, kwargs)
            finally:
                self._require_parameter_gradients(True)

        return forward

    def _check_replay(self, name: str) -> None:
        """Raises PrivacyError if a layer runs for the first time in backward."""
        if self._recording is None or not self._recording.has_seen(name):
            raise PrivacyError(
                f"{name or 'the module'} ran in the backward pass but was hidden in "
                "the forward pass, as with reentrant checkpointing. Use "
                "checkpoint(..., use_reentrant=False)."
            )

    def _replays(self) -> bool:
        """Returns True if backward runs a checkpointed part of the pass again."""
        return _in_backward() and torch.is_grad_enabled()

    def _deliver(self, pairs: list[tuple[PendingLayerCall, Tensor]]) -> None:
        recording = self._recording
        if recording is None:
            raise PrivacyError("gradients arrived for a pass that was not recorded.")
        if self._sharded:
            reshard(self.module)
        if not self.report_loss():
            return
        self._choices = {}
        calls = [self._layer_call(pending, gradient) for pending, gradient in pairs]
        size = recording.batch_size
        scale, device = self.gradient_scale(size), self._trained[0].device
        parts = grouped(calls, scale)
        self.on_gradients(DeferredGradients(parts, size, scale, device))

    def _layer_call(self, pending: PendingLayerCall, backprops: Tensor) -> LayerCall:
        """Returns the call with its norm method.

        The precision is the parameter's, but at least float32.  Under autocast
        activations and backprops may be bfloat16, whose 8 bits are too few to bound a
        ghost norm.  Instantiated gradients may be bfloat16, because the norm and the
        sum then use equal numbers.
        """
        parameter = next(iter(pending.trained.parameters.values()))
        name, rule, layer = pending.name, pending.rule, pending.layer
        dtype = accumulation_dtype(parameter.dtype)
        inputs = pending.activations, backprops
        is_low = backprops.dtype is torch.bfloat16 and (
            rule.of_low_precision and _are_bfloat16(*inputs)
        )
        if not is_low:
            inputs = _in_precision(*inputs, dtype)
        mode = self._modes[name]
        ghost = chosen_ghost_norm(mode, rule, layer, *inputs)
        keeps = mode != "MixGhostClip"
        if is_low and (ghost is not None or not keeps):
            inputs = _in_precision(*inputs, dtype)
        specs = pending.specs or specs_of(*inputs)
        is_ghost = ghost is not None
        choice = partial(explained, name, mode, rule, layer, specs, is_ghost=is_ghost)
        self._choices.setdefault(name, []).append(choice)
        return LayerCall(
            rule,
            layer,
            *inputs,
            pending.trained,
            dtype,
            ghost=ghost,
            keeps=keeps,
        )


def _are_bfloat16(activations: Any, backprops: Tensor) -> bool:
    """Returns True if a device has computed the tensors of a layer in bfloat16."""
    tensors = *tensors_of(activations), backprops
    return backend_of(backprops).is_async and all(
        tensor.dtype is torch.bfloat16 for tensor in tensors
    )


def _in_precision(
    activations: Any, backprops: Tensor, dtype: torch.dtype
) -> tuple[Any, Tensor]:
    if isinstance(activations, Tensor) and (
        activations.dtype is backprops.dtype is dtype
    ):
        return activations, backprops  # The usual case needs no conversion.
    activations = map_tensors(lambda x: in_precision(x, dtype), activations)
    return activations, in_precision(backprops, dtype)


def _require_gradients(layer: nn.Module, names: list[str], required: bool) -> None:
    """Sets ``requires_grad`` of the layer's current parameters, whole or sharded."""
    for name in names:
        layer.get_parameter(name).requires_grad_(required)


def _in_backward() -> bool:
    task: int = torch._C._current_graph_task_id()
    return task != -1
