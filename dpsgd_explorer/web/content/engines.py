"""Engines of the literature, the corresponding engines here, and their use cases.

``docs/reference/engines.md`` prints these tables.  ``python -m tools.compare_engines``
recorded the costs; chapters and the trainer's help show them too, and a test compares
them with ``benchmarks/results``.
"""

from __future__ import annotations

from dataclasses import dataclass

from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.experiments.vocabulary import (
    CLIPPING_FUNCTIONS,
    CLIPPING_STYLES,
    ENGINES,
)
from dpsgd_explorer.web.recorded.files import recording

COSTS = "engines/costs"
ORDINARY = "ordinary"
DEFAULT_MODE: str = TrainingConfig.model_fields["clipping_mode"].default
FEATURE_HEAD = ("what", *ENGINES, ORDINARY)
KNOWN_HEAD = ("engine", "method", "recommended for", "here", "time", "memory")
NONE = "–"

Table = list[tuple[str, ...]]


@dataclass(frozen=True)
class KnownEngine:
    """An engine of a paper or library.

    Attributes:
        name: Name in the literature, with its source.
        mechanism: Method by which it computes the clipped sum.
        recommended: Recommended use.
        here: Arguments of ``PrivacyEngine`` that select it, or the reason why it is not
            available.
        measured: Name in the recorded costs; "" if it is not measured.
    """

    name: str
    mechanism: str
    recommended: str
    here: str
    measured: str = ""


KNOWN = (
    KnownEngine(
        "no privacy (torch)",
        "the sum of all gradients in one backward pass",
        "baseline for the cost of privacy",
        "no engine",
        ORDINARY,
    ),
    KnownEngine(
        "micro-batches (Abadi et al. 2016)",
        "a forward and a backward pass for each sample",
        "models that no other engine supports, and checks of the other engines",
        'engine="microbatch"',
        "microbatch",
    ),
    KnownEngine(
        "stored per-sample gradients (Opacus: Yousefpour et al. 2021)",
        "hooks that store activations and backprops, and one einsum per layer",
        "small layers on long sequences or large images",
        'engine="hooks", clipping_mode="instantiate"',
        "hooks, instantiate",
    ),
    KnownEngine(
        "ghost clipping (Goodfellow 2015; Li et al. 2022)",
        "norms from Gram matrices of activations and backprops, no stored gradients",
        "wide layers with few positions: large linear layers, short texts",
        'engine="hooks", clipping_mode="ghost"',
        "hooks, ghost",
    ),
    KnownEngine(
        "mixed ghost clipping (Bu, Mao and Xu 2022)",
        "the cheaper of both norms for each layer; gradients are computed again for "
        "the sum",
        "convolutional networks with little memory",
        'engine="hooks", clipping_mode="MixGhostClip"',
        "hooks, MixGhostClip",
    ),
    KnownEngine(
        "book-keeping, mixed (Bu et al. 2022; FastDP’s hook-based engine)",
        "the same choice; tensors computed for the norm are stored for the sum: one "
        "backward pass in total",
        "any model on one device: the default",
        'engine="hooks", clipping_mode="MixOpt"',
        "hooks",
    ),
    KnownEngine(
        "torch-extending (FastDP)",
        "layers whose backward pass clips, so that autograd returns private gradients",
        "trainers that call the optimizer themselves: the optimizer stays unchanged",
        'engine="extending"',
        "extending",
    ),
    KnownEngine(
        "function transforms (torch.func)",
        "the gradient of one sample’s loss, mapped over the batch",
        "modules that hooks rejects, if all gradients fit into memory",
        'engine="vmap"',
        "vmap",
    ),
    KnownEngine(
        "ghost differentiation (Bu et al. 2022; FastDP’s origin_params)",
        "a backward pass without the ordinary gradients of parameters",
        "every step: the ordinary gradients are not used",
        "always on in hooks and extending; origin_params is accepted and changes "
        "nothing",
    ),
    KnownEngine(
        "sharded engines (FastDP with ZeRO)",
        "the hooks, on parameters, gradients or states spread over devices",
        "models that do not fit into one device",
        'fully_shard (FSDP2) and group=dist.group.WORLD, with engine="hooks"',
    ),
    KnownEngine(
        "bias terms only (DP-BiTFiT: Bu et al. 2022)",
        "sums of backprops alone, no activations",
        "fine-tuning of large models",
        "any engine, after the other parameters are frozen",
    ),
)

BY_RULE = "by rule, otherwise by torch.func; modules that mix samples are rejected"
HOOKED = "`param.private_grad`, `param.grad` at `step()`"
FEATURES: dict[str, tuple[str, ...]] = {
    "sharded training (FSDP2)": (
        "layers whose rule reads no parameter",
        *["rejected"] * (len(ENGINES) - 1),
        "torch’s",
    ),
    "layers": (
        BY_RULE,
        BY_RULE,
        "modules that torch.func can map",
        "any module that does not mix samples",
        "any",
    ),
    "clipping styles": (*[f"{', '.join(CLIPPING_STYLES)}, lists"] * len(ENGINES), NONE),
    "clipping functions": (*[", ".join(CLIPPING_FUNCTIONS)] * len(ENGINES), NONE),
    "optimizer": ("hooked", "untouched", "hooked", "hooked", "untouched"),
    "noisy gradient in": (HOOKED, "`param.grad`", HOOKED, HOOKED, "no noise"),
    "backward kernels": (
        "torch’s for inputs; one product per layer for parameters",
        "the same, called from Python",
        "torch’s, batched",
        "torch’s, one sample at a time",
        "torch’s",
    ),
    "ghost differentiation": ("always", "always", "no", "no", "not needed"),
    "recommended for": (
        "one device: the default",
        "trainers that call the optimizer themselves",
        "modules that hooks rejects",
        "all other models, and checks",
        "comparison",
    ),
}


def measured_on() -> str:
    """Returns a description of the measurement and the machine."""
    stored = recording(COSTS)
    sizes = ", ".join(f"{size} ({model})" for model, size in batches().items())
    return (
        f"Batches of {sizes}; secure noise, relative to torch’s ordinary step: CPU "
        "time of one thread and peak memory of a step, measured in turns; "
        f"{stored['machine']}, torch {stored['torch']}."
    )


def beside_small_models() -> str:
    """Returns the reason why the lab measures higher costs than the tables."""
    name = "transformer"
    time, _ = models()[name]["hooks"]
    parameters: int = recording(COSTS)["parameters"][name]
    return (
        "A private step has fixed costs, which weigh more on a small model. With a "
        f"larger transformer of {parameters:,} parameters and batches of "
        f"{batches()[name]}, a step of the hooks engine takes {time:.2f} times the "
        "ordinary time."
    )


def batches() -> dict[str, int]:
    """Returns {model: number of records in a measured step}."""
    sizes: dict[str, int] = recording(COSTS)["batches"]
    return sizes


def with_mode(engine: str, mode: str) -> str:
    """Returns the name of an engine with a clipping mode in the recorded costs."""
    return engine if mode == DEFAULT_MODE else f"{engine}, {mode}"


def known() -> Table:
    """Returns the table of engines in the literature, with costs over all models."""
    return [
        (
            engine.name,
            engine.mechanism,
            engine.recommended,
            engine.here,
            *_costs_of(engine.measured),
        )
        for engine in KNOWN
    ]


def features() -> Table:
    """Returns the table of engines here: features, and costs relative to SGD."""
    costs = [
        (
            f"{quantity}, {model}",
            *(f"{of[name][index]:.2f}" for name in (*ENGINES, ORDINARY)),
        )
        for index, quantity in enumerate(("time", "memory"))
        for model, of in models().items()
    ]
    return [*costs, *((name, *cells) for name, cells in FEATURES.items())]


def models() -> dict[str, dict[str, list[float]]]:
    """Returns {model: {engine: [time, memory]}}, relative to non-private SGD."""
    costs: dict[str, dict[str, list[float]]] = recording(COSTS)["costs"]
    return costs


def _costs_of(name: str) -> tuple[str, str]:
    if not name:
        return NONE, NONE
    time, memory = (
        " / ".join(f"{of[name][place]:.2f}" for of in models().values())
        for place in (0, 1)
    )
    return time, memory
