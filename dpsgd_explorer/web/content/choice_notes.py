"""Notes of the trainer on clipping methods and engines, with measured results.

Every number is read from a recording: accuracies from ``recorded/choices``, costs from
the table of engines in docs/reference/engines.md.
"""

from __future__ import annotations

import statistics
from functools import cache, partial

from dpsgd_explorer.accounting.released_counts import (
    MIN_COUNT_NOISE_RATIO,
    gradient_noise,
)
from dpsgd_explorer.experiments.catalogue import DATA_SETS, MODELS
from dpsgd_explorer.experiments.schedules import NOISE_STAGES
from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.web.content import engines
from dpsgd_explorer.web.forms.fields import text_of
from dpsgd_explorer.web.questions.rounding import percent_limit
from dpsgd_explorer.web.recorded.files import recording

_stored = partial(recording, "choices/clipping")

WORDS: dict[str, dict[str, str]] = {
    "clipping_fn": {
        "Abadi": "A gradient with a norm above C is scaled down to norm C; all "
        "others stay unchanged.",
        "automatic": "Every gradient, short or long, is scaled to a norm of about C, "
        "so C only scales the step.",
        "global": "A gradient with a norm above C is dropped; all others stay "
        "unchanged. A small C drops many gradients.",
    },
    "clipping_style": {
        "all-layer": "One norm over all layers: clipping keeps the direction of the "
        "gradient.",
        "layer-wise": "Each of n layers is clipped to C/√n separately, which changes "
        "the direction of the gradient.",
        "param-wise": "Each of n tensors is clipped to C/√n separately, which "
        "changes the direction of the gradient more.",
    },
    "clipping_mode": {
        "MixOpt": "Each layer uses the cheaper method for its shape.",
        "MixGhostClip": "The same methods, but gradients computed for a norm are "
        "computed again for the sum: less memory, more time.",
        "ghost": "No layer computes per-record gradients for their norms: good for "
        "wide layers, bad for large images and long sequences.",
        "instantiate": "Every layer computes and stores the gradient of each record: "
        "good for small layers, bad for wide ones.",
    },
    "engine": {
        "hooks": "Stores the inputs and output gradients of each layer, and computes "
        "norms and sum from them.",
        "extending": "The same computation, inside the backward pass of each layer.",
        "vmap": "Maps the model over the records, and stores all per-record "
        "gradients together.",
        "microbatch": "Processes one record at a time.",
    },
}

SCHEDULE_WORDS: dict[str, dict[str, str]] = {
    "noise_schedule": {
        "constant": "Every step draws the same noise.",
        **dict.fromkeys(
            ("linear", "cosine", "exponential"),
            f"In {NOISE_STAGES} stages of equal length; ε counts each stage with its "
            "own σ.",
        ),
    },
    "clipping_schedule": {
        "constant": "Every step clips at the same C.",
        **dict.fromkeys(
            ("linear", "cosine", "exponential"),
            "Costs no ε: at every step the noise is a multiple of C.",
        ),
        "adaptive": "Each step also releases a noisy count of the gradients within "
        "C. To keep ε unchanged, the noise of the gradient grows by at "
        f"most {percent_limit(gradient_noise(1.0, MIN_COUNT_NOISE_RATIO) - 1)} "
        "%.",
    },
    "learning_rate_schedule": {
        "constant": "Every step has the same learning rate.",
        **dict.fromkeys(
            ("linear", "cosine", "exponential"),
            "Costs no ε: it is fixed before the run.",
        ),
    },
}


@cache
def choice_notes() -> dict[str, dict[str, str]]:
    """Returns {setting: {choice: description and measured result}}."""
    effects = {**_accuracies(), "clipping_mode": _modes(), "engine": _engines()}
    return {
        field: {
            choice: f"{text} {effects[field][choice]}" for choice, text in of.items()
        }
        for field, of in WORDS.items()
    } | SCHEDULE_WORDS


def _accuracies() -> dict[str, dict[str, str]]:
    """Returns the accuracies of runs that differ only in the choice."""
    stored = _stored()
    config = TrainingConfig.parse(stored["config"])
    where = f"{DATA_SETS[config.dataset].label}, {MODELS[config.model].label}"
    terms = f"ε = {text_of(config.target_epsilon)}, C = {config.max_grad_norm:g}, "
    terms += f"{len(stored['seeds'])} seeds"
    return {
        field: {
            choice: f"Recorded: {_percent(of[choice])}{_others(of, choice)} "
            f"({where}, {terms}, all other settings equal)."
            for choice in of
        }
        for field, of in stored["accuracy"].items()
    }


def _others(accuracies: dict[str, list[float]], excluded: str) -> str:
    rest = [
        f"{name} {_percent(accuracies[name])}"
        for name in accuracies
        if name != excluded
    ]
    return f"; {', '.join(rest)}"


def _percent(accuracies: list[float]) -> str:
    return f"{100 * statistics.mean(accuracies):.1f} %"


def _modes() -> dict[str, str]:
    """Returns time and memory of each clipping mode, relative to non-private SGD."""
    return {
        mode: f"{_cost('cnn', engines.with_mode('hooks', mode))}."
        for mode in WORDS["clipping_mode"]
    }


def _engines() -> dict[str, str]:
    """Returns time and memory of each engine, relative to non-private SGD."""
    return {
        engine: f"{_cost('transformer', engine)}; same numbers."
        for engine in WORDS["engine"]
    }


def _cost(model: str, way: str) -> str:
    time, memory = engines.models()[model][way]
    return (
        f"Recorded: {time:.2f} × the time and {memory:.2f} × the memory of an ordinary "
        f"step ({model}, batches of {engines.batches()[model]})"
    )
