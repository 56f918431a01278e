"""Private gradients by autograd functions for layers (``engine="extending"``).

The layers' own backward is replaced, and when autograd's backward ends, the noisy
gradient stands in ``param.grad`` as any gradient does.  Nothing of the optimizer is
touched, so that whatever drives it need not know of privacy.  What is clipped, and how
norms are made, is as under hooks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from dpsgd_explorer.dp.engines.autograd_functions import function_of, run_in_place_of
from dpsgd_explorer.dp.engines.hooks import HooksEngine
from dpsgd_explorer.dp.layers.rewrite import Rewrite
from dpsgd_explorer.dp.modules.forward_patch import ForwardPatch


class ExtendingEngine(HooksEngine):
    """Runs the layers that have a function by it; the others as hooks do."""

    releases_in_backward: ClassVar[bool] = True

    def _watch_layer(self, name: str, rule: Any) -> None:
        super()._watch_layer(name, rule)
        if not isinstance(rule, Rewrite):
            layer = self._coverage.layers[name]
            self._patches.append(ForwardPatch(layer, self._extended(name, rule)))

    def _extended(self, name: str, rule: Any) -> Callable[..., Any]:
        layer = self._coverage.layers[name]

        def forward(own_forward: Callable[..., Any], args: Any, kwargs: Any) -> Any:
            if self._now_recording() is None and not self._replays():
                return own_forward(*args, **kwargs)
            function = function_of(layer, rule, args, kwargs)
            if function is None:
                return own_forward(*args, **kwargs)
            return run_in_place_of(function, layer, args, kwargs)

        return forward
