"""Private gradients by autograd functions of layers (``engine="extending"``).

The layers' backward is replaced, and when autograd's backward ends, the clipped and
noisy gradient is in ``param.grad``, like any gradient.  The optimizer is not wrapped,
so a trainer that drives it needs no change.  Norms, clipping and the sum are computed
as by ``hooks``, from equal activations and backprops.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from dpsgd_explorer.dp.engines.autograd_functions import apply_function, function_of
from dpsgd_explorer.dp.engines.hooks import HooksEngine
from dpsgd_explorer.dp.layers.rewrite import Rewrite
from dpsgd_explorer.dp.modules.forward_patch import ForwardPatch


class ExtendingEngine(HooksEngine):
    """Runs layers by their autograd functions; other layers run as under ``hooks``."""

    releases_in_backward: ClassVar[bool] = True

    def _watch_layer(self, name: str, rule: Any) -> None:
        super()._watch_layer(name, rule)
        # A rewritten forward already has a patch, which records its parts.
        if not isinstance(rule, Rewrite):
            layer = self._coverage.layers[name]
            self._patches.append(ForwardPatch(layer, self._patched(name, rule)))

    def _patched(self, name: str, rule: Any) -> Callable[..., Any]:
        """Returns the forward that runs the layer's function during a pass."""
        layer = self._coverage.layers[name]

        def forward(original: Callable[..., Any], args: Any, kwargs: Any) -> Any:
            if self._current_recording() is None and not self._replays():
                return original(*args, **kwargs)
            function = function_of(layer, rule, args, kwargs)
            if function is None:
                return original(*args, **kwargs)
            return apply_function(function, layer, args, kwargs)

        return forward
