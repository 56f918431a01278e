"""The options of ``make_private``, in groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import torch.distributed as dist
from torch.amp import GradScaler

from dpsgd_explorer.accounting.schedules import Schedule
from dpsgd_explorer.dp import choices
from dpsgd_explorer.dp.clipping.bound import ClippingSchedule
from dpsgd_explorer.dp.distributed.ranks import ALONE, Ranks
from dpsgd_explorer.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class Clipping:
    """How the gradient of a sample is clipped.

    Attributes:
        max_grad_norm: Bound C on a sample's gradient (L2), shared equally by the
            clipping groups; or the bound of each group.
        fn: Factor of a gradient of norm n.  "automatic": C / (n + 0.01); "Abadi":
            min(1, C / n); "global": C / Z up to Z, else 0.
        style: Parameters that share a norm.  "all-layer": all of them; "layer-wise":
            those of a layer; "param-wise": each parameter has a norm of its own.  Or
            names of the layers at which a clipping group begins; or the groups, as
            lists of names.
        threshold: Z of ``fn="global"``; ``max_grad_norm`` if not given.
        schedule: Change of the bound: a schedule of ``dp.schedules``, or
            ``AdaptiveClipping`` to follow a quantile of the norms.

    Example:
        >>> Clipping(max_grad_norm=0.5, fn="Abadi").max_grad_norm
        0.5
    """

    max_grad_norm: float | Sequence[float] = 1.0
    fn: choices.ClippingFn = "automatic"
    style: choices.ClippingStyle = "all-layer"
    threshold: float | None = None
    schedule: ClippingSchedule | None = None


@dataclass(frozen=True, kw_only=True)
class Noise:
    """How the noise of a step is drawn.  Its size is ``noise_multiplier``.

    Attributes:
        kind: "secure": noise and batches are unpredictable and cannot be repeated.
            "seeded": both repeat with the seed, and anyone who knows the seed can
            remove the noise.
        seed: Seed of seeded noise and of its batches; random if not given.
        schedule: Change of the noise multiplier from step to step (``dp.schedules``),
            1 at the first; accounted step by step.

    Example:
        >>> Noise(kind="seeded", seed=1).seed
        1
    """

    kind: choices.Noise = "secure"
    seed: int | None = None
    schedule: Schedule | None = None


@dataclass(frozen=True, kw_only=True)
class Execution:
    """How a step is computed.  Nothing here changes the private mechanism or epsilon.

    Attributes:
        engine: How per-sample gradients are computed.  "hooks": from the inputs and
            backprops of layers; "extending": the same, with gradients at the end of
            backward; "vmap": by torch.func; "microbatch": one sample at a time.
        clipping_mode: How norms are computed: "MixOpt", "MixGhostClip", "ghost" or
            "instantiate", or {layer's name: mode}; see ``PrivacyEngine``.
        physical_batch_size: Most samples in memory at a time: the loader yields a
            larger batch in parts, and the loop stays the same.
        num_workers: Processes that fetch records ahead.
        grad_scaler: Scales losses against underflow in half precision; needs
            ``engine="extending"``.
        group: Processes of ``torch.distributed`` that train the model together.
        partition: With a group, "strided": each rank has the whole data set; "local":
            each has records that no other rank has.

    Example:
        >>> Execution(physical_batch_size=64).engine
        'hooks'
    """

    engine: choices.Engine = "hooks"
    clipping_mode: choices.ClippingMode = "MixOpt"
    physical_batch_size: int | None = None
    num_workers: int = 0
    grad_scaler: GradScaler | None = None
    group: dist.ProcessGroup | Ranks = ALONE
    partition: choices.Partition = "strided"


@dataclass(frozen=True, kw_only=True)
class Audit:
    """Canaries that measure a lower bound on epsilon while the model trains.

    Attributes:
        canaries: Number of canaries that go through every step; 0 for no audit.  They
            change neither the training nor epsilon.
        relation: How a canary's two worlds differ: it is there or not
            ("add_or_remove_one"), or another is there in its place ("replace_one").

    Example:
        >>> Audit(canaries=2000).relation
        'add_or_remove_one'
    """

    canaries: int = 0
    relation: choices.AuditRelation = "add_or_remove_one"


Group = TypeVar("Group", Clipping, Noise, Execution, Audit)


def group(name: str, given: Group | None, kind: type[Group]) -> Group:
    """Return the options given, or the default ones.

    Raises:
        ConfigError: something else was given, such as the name of an option.
    """
    if given is None:
        return kind()
    if not isinstance(given, kind):
        raise ConfigError(
            name, f"{name} must be a dp.{kind.__name__}(...), got {given!r}."
        )
    return given
