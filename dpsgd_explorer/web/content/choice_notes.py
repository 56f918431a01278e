"""What the trainer says of the choices of clipping and engine, and what they did.

The words are ours; every number is read from what was recorded: accuracies from
``recorded/choices``, costs from the table of engines in docs/reference/engines.md.
"""

from __future__ import annotations

import statistics
from functools import cache, partial

from dpsgd_explorer.accounting.released_counts import MIN_COUNT_NOISE, gradient_noise
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
        "Abadi": "A gradient longer than C is shortened to C, a shorter one is kept.",
        "automatic": "Every gradient is brought to about C, also a short one, so C "
        "only scales the step.",
        "global": "A gradient longer than C is left out, a shorter one is kept: a "
        "small C leaves out much.",
    },
    "clipping_style": {
        "all-layer": "One length over all layers decides: the direction stays.",
        "layer-wise": "Each of n layers is clipped to C/√n by itself, which turns the "
        "gradient.",
        "param-wise": "Each of n tensors is clipped to C/√n by itself, which turns the "
        "gradient more.",
    },
    "clipping_mode": {
        "MixOpt": "Each layer takes the cheaper way for its shape.",
        "MixGhostClip": "The same, but gradients made for a length are made again for "
        "the sum: less memory, more time.",
        "ghost": "No layer makes a gradient to learn its length: good for wide layers, "
        "bad for large pictures and long sequences.",
        "instantiate": "Every layer makes each record’s gradient and keeps it: good "
        "for small layers, bad for wide ones.",
    },
    "engine": {
        "hooks": "Keeps what each layer saw, and makes lengths and sum from it.",
        "extending": "The same within each layer’s own backward.",
        "vmap": "Maps the model over the records, and holds all gradients at once.",
        "microbatch": "Runs one record at a time.",
    },
}

SCHEDULE_WORDS: dict[str, dict[str, str]] = {
    "noise_schedule": {
        "constant": "Every step draws the same noise.",
        **dict.fromkeys(
            ("linear", "cosine", "exponential"),
            f"In {NOISE_STAGES} parts of equal length; ε counts each with its own σ.",
        ),
    },
    "clipping_schedule": {
        "constant": "Every step clips at the same C.",
        **dict.fromkeys(
            ("linear", "cosine", "exponential"),
            "Costs no ε: at every step the noise is a multiple of C.",
        ),
        "adaptive": "Each step also releases how many gradients were within C, with "
        "noise of its own. ε is the same; for it the gradient’s noise grows, by at "
        f"most {percent_limit(gradient_noise(1.0, MIN_COUNT_NOISE) - 1)} %.",
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
    """Return {setting: {choice: what it is, and what it did}}."""
    effects = {**_accuracies(), "clipping_mode": _modes(), "engine": _engines()}
    return {
        field: {
            choice: f"{text} {effects[field][choice]}" for choice, text in of.items()
        }
        for field, of in WORDS.items()
    } | SCHEDULE_WORDS


def _accuracies() -> dict[str, dict[str, str]]:
    """Return what runs reached that differ in the choice alone."""
    stored = _stored()
    config = TrainingConfig.parse(stored["config"])
    where = f"{DATA_SETS[config.dataset].label}, {MODELS[config.model].label}"
    terms = f"ε = {text_of(config.target_epsilon)}, C = {config.max_grad_norm:g}, "
    terms += f"{len(stored['seeds'])} seeds"
    return {
        field: {
            choice: f"Recorded: {_percent(of[choice])}{_others(of, choice)} ({where}, "
            f"{terms}, all else equal)."
            for choice in of
        }
        for field, of in stored["accuracy"].items()
    }


def _others(of: dict[str, list[float]], own: str) -> str:
    rest = [f"{name} {_percent(of[name])}" for name in of if name != own]
    return f"; {', '.join(rest)}"


def _percent(accuracies: list[float]) -> str:
    return f"{100 * statistics.mean(accuracies):.1f} %"


def _modes() -> dict[str, str]:
    """Return time and memory of each mode over an ordinary step."""
    return {
        mode: f"{_cost('cnn', engines.with_mode('hooks', mode))}."
        for mode in WORDS["clipping_mode"]
    }


def _engines() -> dict[str, str]:
    """Return time and memory of each engine over an ordinary step."""
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
