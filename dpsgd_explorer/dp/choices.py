"""The allowed strings of arguments, as types.

Each type lists the strings of one argument of ``PrivacyEngine``, or of an option of
``Clipping``, ``Noise``, ``Execution`` and ``Audit``.

Example:
    >>> from typing import get_args
    >>> from dpsgd_explorer import dp
    >>> get_args(dp.choices.Engine)
    ('hooks', 'extending', 'vmap', 'microbatch')
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

#: ``accounting_mode``: the exact accountant, a named bound or approximation, or all.
AccountingMode = Literal[
    "exact",
    "rdp",
    "glw",
    "moments",
    "gdp",
    "zcdp",
    "optimal",
    "advanced",
    "basic",
    "all",
]
#: ``clipping_fn``: the factor of a gradient of norm n with the bound C.
ClippingFn = Literal["Abadi", "automatic", "global"]
#: One mode of ``clipping_mode``: how norms are computed.
ClippingModeName = Literal["MixOpt", "MixGhostClip", "ghost", "instantiate"]
#: ``clipping_mode``: a mode, or {layer's name: mode}.
ClippingMode = ClippingModeName | Mapping[str, ClippingModeName]
#: One name of ``clipping_style``: the parameters that share a norm.
ClippingStyleName = Literal["all-layer", "layer-wise", "param-wise"]
#: ``clipping_style``: a name, the first layer of each group, or the groups.
ClippingStyle = ClippingStyleName | Sequence[str] | Sequence[Sequence[str]]
#: ``engine``: how per-sample gradients are computed.
Engine = Literal["hooks", "extending", "vmap", "microbatch"]
#: ``loss_reduction``: the reduction of the loss over the samples.
LossReduction = Literal["mean", "sum"]
#: ``noise``: unpredictable, or repeatable by a seed.
Noise = Literal["secure", "seeded"]
#: ``sampling``: the source of the batches.
Sampling = Literal["poisson", "random_allocation", "fixed_slots", "unchecked"]
#: ``sampling`` of ``make_private``, which creates the loader.
LoaderSampling = Literal["poisson", "random_allocation", "fixed_slots"]
#: ``audit_relation``: the two cases that an audit distinguishes.
AuditRelation = Literal["add_or_remove_one", "replace_one"]
#: ``partition``: the records of each rank.
Partition = Literal["strided", "local"]
