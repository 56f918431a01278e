"""The settings, each described once: label, symbol, unit, help, slider, widest domain.

A model takes a setting by its name and narrows its domain.  Where the same quantity
does something else in a model, that model also gives its own help or slider.
"""

from __future__ import annotations

from typing import Any

from pydantic import Field

from dpsgd_explorer.accounting import ACCOUNTANTS
from dpsgd_explorer.accounting.core.validation import MAX_NOISE_MULTIPLIER, MAX_STEPS
from dpsgd_explorer.accounting.registry import ALL
from dpsgd_explorer.experiments.catalogue import DATA_SETS, MODELS
from dpsgd_explorer.experiments.fields.attack_settings import ATTACK_SETTINGS
from dpsgd_explorer.experiments.fields.setting import Setting
from dpsgd_explorer.experiments.schedules import SCHEDULES

LARGEST_SEED = 2**31 - 1
MOST_RECORDS = 10**9
ACTIVATIONS = {"usual": "The model’s usual one", "relu": "ReLU", "tanh": "tanh"}
RELATIONS = {
    "add_or_remove_one": "one record more or less",
    "replace_one": "one replaced",
}
OPTIMIZERS = {"sgd": "SGD", "adam": "Adam"}
CLIPPING_FUNCTIONS = {
    "Abadi": "Shorten to C",
    "automatic": "Normalise all to C",
    "global": "Leave out what is longer than C",
}
CLIPPING_STYLES = {
    "all-layer": "All layers together",
    "layer-wise": "Each layer by itself",
    "param-wise": "Each parameter tensor by itself",
}
CLIPPING_MODES = {
    "MixOpt": "Cheapest for each layer",
    "MixGhostClip": "Cheapest norm, gradients made again",
    "ghost": "Norms from Gram matrices",
    "instantiate": "Store each gradient",
}
ENGINES = {
    "hooks": "Hooks: keep what each layer saw",
    "extending": "Extending: in the layers’ own backward",
    "vmap": "vmap: the whole model, over its samples",
    "microbatch": "Micro-batches: one sample at a time",
}
VALUES = "numbers parted by spaces, such as 1 2 4; empty: not searched"

SETTINGS: dict[str, Setting] = {
    "dataset": Setting(
        label="Data set",
        help="What the model learns from.",
        choices={name: data.label for name, data in DATA_SETS.items()},
    ),
    "model": Setting(
        label="Model",
        help="What is trained on it.",
        choices={name: model.label for name, model in MODELS.items()},
    ),
    "widths": Setting(
        label="Widths of the layers",
        help="Units of each hidden layer; of the convolutional network, channels of "
        "its two convolutions, then units. Empty: the usual ones.",
        words="whole numbers separated by commas, such as 256, 128",
    ),
    "activation": Setting(
        label="Activation",
        help="What is between two layers.",
        choices=ACTIVATIONS,
    ),
    "private": Setting(
        label="Train with privacy",
        help="Off: the same batches without clipping or noise. Not private.",
    ),
    "epsilon": Setting(
        label="Budget",
        symbol="ε",
        unit="nats",
        help="What the whole run spends.",
        marks=(0.1, 0.3, 1, 3, 10),
        ends=("more private", "more accurate"),
        ge=0,
        le=1000,
    ),
    "target_epsilon": Setting(
        label="Target",
        symbol="ε",
        unit="nats",
        help="The noise is chosen so that the whole run spends this.",
        marks=(0.3, 1, 3, 10, 30),
        ends=("more private", "more accurate"),
        step=0.1,
        gt=0,
        le=1000,
    ),
    "stop_at_epsilon": Setting(
        label="Stopping budget",
        symbol="ε",
        unit="nats",
        help="Stop before ε would exceed this. Empty: run all steps.",
        step=0.1,
        gt=0,
        le=1000,
    ),
    "filter_epsilon": Setting(
        label="Budget for changes",
        symbol="ε",
        unit="nats",
        help="Allows σ, batch size and steps to change while the run trains: a privacy "
        "filter counts every step and stops the run here, and this is then its ε. "
        "Empty: they are fixed.",
        step=0.1,
        gt=0,
        le=1000,
    ),
    "noise_multiplier": Setting(
        label="Noise multiplier",
        symbol="σ",
        unit="sensitivity",
        help="Noise on the sum, in units of C.",
        marks=(0.5, 1, 2, 4, 8),
        ends=("more accurate", "more private"),
        step=0.01,
        ge=0,
        le=MAX_NOISE_MULTIPLIER,
    ),
    "delta": Setting(
        label="Delta",
        symbol="δ",
        unit="probability",
        help="Upper bound on the probability excess beyond e^ε; keep it far below 1/N.",
        marks=(1e-9, 1e-8, 1e-7, 1e-6, 1e-5),
        gt=0,
        lt=1,
    ),
    "max_grad_norm": Setting(
        label="Clipping bound",
        symbol="C",
        unit="gradient norm",
        help="Length a single record's gradient may keep. Does not change ε.",
        marks=(0.03, 0.1, 0.3, 1, 3),
        ends=("more bias", "more noise"),
        step=0.01,
        gt=0,
        le=1e6,
    ),
    "clipping_fn": Setting(
        label="Clipping function",
        help="Shorten long gradients, bring all to one length, or leave long ones out.",
        choices=CLIPPING_FUNCTIONS,
    ),
    "clipping_style": Setting(
        label="Clipping style",
        help="What is measured and clipped together; n blocks get C/√n each.",
        choices=CLIPPING_STYLES,
    ),
    "clipping_heads": Setting(
        label="Layers that begin a group",
        help="Each group is clipped by itself, as a style of one’s own. Empty: as the "
        "clipping style says.",
        words="names of layers separated by commas, such as 1, 5",
    ),
    "clipping_mode": Setting(
        label="Clipping mode",
        help="How the lengths are computed. The result is the same.",
        choices=CLIPPING_MODES,
    ),
    "engine": Setting(
        label="Engine",
        help="What computes each record’s gradient. The result is the same.",
        choices=ENGINES,
    ),
    "accountant": Setting(
        label="Accountant",
        help="How ε is computed.",
        choices={name: entry.label for name, entry in ACCOUNTANTS.items()}
        | {ALL: "All; the exact one decides"},
    ),
    "neighboring_relation": Setting(
        label="Neighbours",
        help="Replacing one record costs twice the noise.",
        choices=RELATIONS,
    ),
    "sample_size": Setting(
        label="Records",
        symbol="N",
        unit="records",
        help="To learn from.",
        ge=1,
        le=MOST_RECORDS,
    ),
    "sample_rate": Setting(
        label="Sample rate",
        symbol="q",
        unit="probability",
        help="Each record joins a step with this probability.",
        marks=(1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1),
        gt=0,
        le=1,
    ),
    "expected_batch_size": Setting(
        label="Expected batch size",
        symbol="qN",
        unit="records",
        help="Every record joins a step with probability q, each by its own coin.",
        marks=(64, 256, 1024, 4096, 16384),
        ends=("cheaper step", "steadier step"),
        step=1,
        ge=1,
    ),
    "steps": Setting(
        label="Steps",
        symbol="T",
        unit="updates",
        help="Updates of the model.",
        marks=(10, 30, 100, 300, 1000, 3000),
        ends=("spends less", "learns longer"),
        step=1,
        ge=0,
        le=MAX_STEPS,
    ),
    "epochs": Setting(
        label="Epochs",
        unit="passes over the data",
        help="How often a record is used on average.",
        marks=(1, 3, 10, 30, 100),
        ends=("spends less", "learns longer"),
        gt=0,
        le=10_000,
    ),
    "optimizer": Setting(
        label="Optimizer",
        help="What turns the noisy gradient into a step.",
        choices=OPTIMIZERS,
    ),
    "learning_rate": Setting(
        label="Learning rate",
        symbol="η",
        help="Clipped gradients are at most C long, and momentum m adds steps up to "
        "ηC/(1 - m): tune the product.",
        marks=(0.1, 1, 10, 100),
        ends=("slower", "bolder"),
        step=0.01,
        gt=0,
        le=10_000,
    ),
    "rate_factor": Setting(
        label="Rate factor",
        help="The learning rate is multiplied by it.",
        marks=(0.01, 0.1, 1, 10),
        gt=0,
        le=1000,
    ),
    "momentum": Setting(
        label="Momentum",
        help="Share of the last step that is kept. Used by SGD.",
        marks=(0, 0.25, 0.5, 0.75),
        step=0.05,
        ge=0,
        lt=1,
    ),
    "rows": Setting(
        label="Rows",
        help="Features are divided by fixed ranges; then each row is brought to norm "
        "B, or only shortened to it.",
        choices={"normalize": "brought to norm B", "clip": "clipped at norm B"},
    ),
    "x_bound": Setting(
        label="Row bound",
        symbol="B",
        unit="row norm",
        help="Largest norm of a row. Public, not taken from the data.",
        marks=(0.5, 1, 2, 4),
        gt=0,
        le=100,
    ),
    "y_bound": Setting(
        label="Label bound",
        symbol="Y",
        unit="label",
        help="Labels beyond it are cut. Public, not taken from the data.",
        marks=(1, 2, 5, 10),
        ends=("bias", "noise"),
        gt=0,
        le=1000,
    ),
    "repetitions": Setting(
        label="Repetitions",
        help="Independent descents; their median and 5 to 95 % band are shown.",
        marks=(20, 50, 100, 200),
        ge=1,
        le=1000,
    ),
    "evaluations": Setting(
        label="Evaluations",
        help="Points on the accuracy curve, evenly spread over ε.",
        step=1,
        ge=1,
        le=200,
    ),
    "seed": Setting(
        label="Seed",
        help="Repeats the run exactly. Anyone who knows it can take the noise away.",
        step=1,
        ge=0,
        le=LARGEST_SEED,
    ),
    "width": Setting(
        label="Width",
        symbol="d",
        unit="units",
        help="Units of a hidden layer, channels, or features of a token.",
        marks=(16, 64, 256, 1024),
        ends=("fewer parameters", "more parameters"),
        step=4,
        words="a multiple of 4 between 4 and 1024",
        ge=4,
        le=1024,
    ),
    "batch_size": Setting(
        label="Batch size",
        symbol="B",
        unit="samples",
        help="Samples of a step; each needs the length of its own gradient.",
        marks=(1, 8, 64, 512),
        ends=("quicker", "more to share"),
        step=1,
        ge=1,
        le=512,
    ),
    "sequence_length": Setting(
        label="Sequence length",
        symbol="T",
        unit="tokens",
        help="Tokens of a sample. Read by the LSTM and the transformer only.",
        marks=(1, 4, 16, 64, 256),
        ends=("norms from products", "norms from gradients"),
        step=1,
        ge=1,
        le=256,
    ),
    "mean_trials": Setting(
        label="Trials on average",
        symbol="E[K]",
        help="Their number K is drawn from a Poisson distribution with this mean and "
        "is never shown.",
        marks=(1, 5, 10, 20),
        step=1,
        ge=1,
        le=100,
    ),
    "learning_rate_values": Setting(
        label="Learning rates to try",
        symbol="η",
        help="A trial draws one of them.",
        words=VALUES,
    ),
    "max_grad_norm_values": Setting(
        label="Clipping bounds to try",
        symbol="C",
        help="A trial draws one of them.",
        words=VALUES,
    ),
    "momentum_values": Setting(
        label="Momenta to try",
        help="A trial draws one of them. Used by SGD.",
        words=VALUES,
    ),
} | SCHEDULES
SETTINGS |= ATTACK_SETTINGS


def setting(
    name: str, default: Any, *, group: str, slider: bool = True, **changes: Any
) -> Any:
    """Return the pydantic field of a setting of the vocabulary.

    Args:
        name: Key of ``SETTINGS``, and the name of the field.
        default: Value if none is given.
        group: Heading above it in the form.
        slider: False leaves marks, ends and step out.
        changes: Attributes of ``Setting`` that differ in this model; limits narrow.
    """
    plain: dict[str, Any] = {"marks": (), "ends": None, "step": None}
    return (
        SETTINGS[name]
        .narrowed(**({} if slider else plain) | changes)
        .field(default, group)
    )


def parameter(name: str, description: str | None = None, **limits: float) -> Any:
    """Return a required pydantic field with a setting's domain, for an API question."""
    domain: dict[str, Any] = SETTINGS[name].narrowed(**limits).limits
    return Field(description=description, **domain)
