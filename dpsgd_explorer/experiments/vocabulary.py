"""Descriptions of all settings: label, symbol, unit, help, slider, widest domain.

A model takes a setting by its name and narrows its domain.  If the quantity has another
role in a model, the model also has its own help or slider.
"""

from __future__ import annotations

from typing import Any

from pydantic import Field

from dpsgd_explorer.accounting.core.validation import MAX_NOISE_MULTIPLIER, MAX_STEPS
from dpsgd_explorer.accounting.registry import ALL
from dpsgd_explorer.accounting.sampling_schemes import POISSON, RANDOM_ALLOCATION
from dpsgd_explorer.experiments.accountant_words import LABELS
from dpsgd_explorer.experiments.architecture import (
    BIASES,
    FULL,
    LAST_LAYER,
    LORA,
    LORA_RANK,
)
from dpsgd_explorer.experiments.catalogue import DATA_SETS, MODELS
from dpsgd_explorer.experiments.fields.attack_settings import ATTACK_SETTINGS
from dpsgd_explorer.experiments.fields.setting import Setting
from dpsgd_explorer.experiments.noise_correlation import MOST_BANDS
from dpsgd_explorer.experiments.schedules import SCHEDULES

LARGEST_SEED = 2**31 - 1
MOST_RECORDS = 10**9
ACTIVATIONS = {"usual": "Default of the model", "relu": "ReLU", "tanh": "tanh"}
TRAINED_PARAMETERS = {
    FULL: "All",
    LORA: f"LoRA of rank {LORA_RANK}: two thin matrices per layer",
    BIASES: "Biases only",
    LAST_LAYER: "Last layer only",
}
RELATIONS = {
    "add_or_remove_one": "one record added or removed",
    "replace_one": "one record replaced",
}
SAMPLINGS = {
    POISSON: "Poisson",
    RANDOM_ALLOCATION: "Random allocation (each record once per epoch)",
}
REGRESSION_METHODS = {
    "all": "AdaSSP, SSP and NoisyGD, which share ε",
    "adassp": "AdaSSP only",
    "ssp": "SSP only",
    "noisy_gd": "NoisyGD only",
}
OPTIMIZERS = {"sgd": "SGD", "adam": "Adam"}
CLIPPING_FUNCTIONS = {
    "Abadi": "Scale down to norm C",
    "automatic": "Scale every gradient to norm C",
    "global": "Leave out gradients longer than C",
}
CLIPPING_STYLES = {
    "all-layer": "All layers together",
    "layer-wise": "Each layer separately",
    "param-wise": "Each parameter tensor separately",
}
CLIPPING_MODES = {
    "MixOpt": "Cheapest for each layer",
    "MixGhostClip": "Cheapest norm, gradients computed again",
    "ghost": "Norms from Gram matrices",
    "instantiate": "Store each gradient",
}
ENGINES = {
    "hooks": "Hooks: store each layer’s input",
    "extending": "Extending: in each layer’s backward pass",
    "vmap": "vmap: the whole model, vectorised over the batch",
    "microbatch": "Micro-batches: one sample at a time",
}
VALUES = "numbers separated by spaces, such as 1 2 4; empty: not searched"

SETTINGS: dict[str, Setting] = {
    "dataset": Setting(
        label="Data set",
        help="Records that the model is trained on.",
        choices={name: data.label for name, data in DATA_SETS.items()},
    ),
    "model": Setting(
        label="Model",
        help="Architecture that is trained on the data set.",
        choices={name: model.label for name, model in MODELS.items()},
    ),
    "widths": Setting(
        label="Widths of the layers",
        help="Units of each hidden layer. For the convolutional network: channels of "
        "its two convolutions, then units. Empty: default widths.",
        words="whole numbers separated by commas, such as 256, 128",
    ),
    "activation": Setting(
        label="Activation",
        help="Activation function between two layers.",
        choices=ACTIVATIONS,
    ),
    "trained_parameters": Setting(
        label="Trained parameters",
        help="Parameters of the language model that the run trains; all others keep "
        "their public pre-trained values. Other models train all parameters.",
        choices=TRAINED_PARAMETERS,
    ),
    "private": Setting(
        label="Train with privacy",
        help="If off, the run uses the same batches without clipping or noise and is "
        "not private.",
    ),
    "epsilon": Setting(
        label="Budget",
        symbol="ε",
        unit="nats",
        help="Privacy loss ε of the whole run.",
        marks=(0.1, 0.3, 1, 3, 10),
        ends=("more private", "more accurate"),
        ge=0,
        le=1000,
    ),
    "target_epsilon": Setting(
        label="Target",
        symbol="ε",
        unit="nats",
        help="ε of the whole run; it sets the noise. Up to 1 is a strong promise.",
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
        help="The run stops before its ε exceeds this value. Empty: it runs all steps.",
        step=0.1,
        gt=0,
        le=1000,
    ),
    "filter_epsilon": Setting(
        label="Budget for changes",
        symbol="ε",
        unit="nats",
        help="You can change σ, batch size and steps while the run trains. A privacy "
        "filter counts every step, stops the run at this ε and reports it. "
        "Empty: σ, batch size and steps are fixed.",
        step=0.1,
        gt=0,
        le=1000,
    ),
    "noise_multiplier": Setting(
        label="Noise multiplier",
        symbol="σ",
        unit="sensitivity",
        help="Standard deviation of the noise on the summed gradient, in units of C.",
        marks=(0.5, 1, 2, 4, 8),
        ends=("more accurate", "more private"),
        step=0.01,
        ge=0,
        le=MAX_NOISE_MULTIPLIER,
    ),
    "noise_bands": Setting(
        label="Noise bands (correlated noise)",
        unit="bands",
        help="1: the noise of each step is independent. More bands b: it cancels a "
        "part of the noise of the b - 1 steps before. The error of the sums is lower "
        "with small batches, many steps and an ε of 3 or more. Batches are then drawn "
        "from groups in turn, so a run without privacy has other batches.",
        marks=(1, 2, 4, 8, MOST_BANDS),
        ends=("independent", "most correlated"),
        step=1,
        ge=1,
        le=MOST_BANDS,
    ),
    "delta": Setting(
        label="Delta",
        symbol="δ",
        unit="probability",
        help="Additive term of (ε, δ)-DP: how far a probability may exceed its e^ε "
        "bound. Choose it far below 1/N.",
        marks=(1e-9, 1e-8, 1e-7, 1e-6, 1e-5),
        gt=0,
        lt=1,
    ),
    "max_grad_norm": Setting(
        label="Clipping bound",
        symbol="C",
        unit="gradient norm",
        help="Maximum L2 norm of one record’s gradient. Longer gradients are scaled "
        "down to it. C does not change ε.",
        marks=(0.03, 0.1, 0.3, 1, 3),
        ends=("more bias", "more noise"),
        step=0.01,
        gt=0,
        le=1e6,
    ),
    "clipping_fn": Setting(
        label="Clipping function",
        help="Treatment of a gradient whose norm exceeds C.",
        choices=CLIPPING_FUNCTIONS,
    ),
    "clipping_style": Setting(
        label="Clipping style",
        help="Parameters that are clipped together; n blocks are clipped to C/√n each.",
        choices=CLIPPING_STYLES,
    ),
    "clipping_heads": Setting(
        label="Layers that begin a group",
        help="First layer of each group of layers that is clipped separately. Empty: "
        "the groups of the clipping style.",
        words="names of layers separated by commas, such as 1, 5",
    ),
    "clipping_mode": Setting(
        label="Clipping mode",
        help="Method that computes gradient norms. It does not change the result.",
        choices=CLIPPING_MODES,
    ),
    "engine": Setting(
        label="Engine",
        help="Method that computes each record’s gradient. It does not change the "
        "result.",
        choices=ENGINES,
    ),
    "accountant": Setting(
        label="Accountant",
        help="Method that computes ε.",
        choices=LABELS | {ALL: "All; the exact one decides"},
    ),
    "sampling": Setting(
        label="Sampling",
        help="Poisson: each record joins each step with probability q. Random "
        "allocation: an epoch has N / batch size steps, rounded up, and each record "
        "joins one of them at random; it needs the exact accountant and no canaries.",
        choices=SAMPLINGS,
    ),
    "neighboring_relation": Setting(
        label="Neighbours",
        help="Data sets that ε compares. Replacing one record needs twice the noise.",
        choices=RELATIONS,
    ),
    "sample_size": Setting(
        label="Records",
        symbol="N",
        unit="records",
        help="Number of records in the training data.",
        ge=1,
        le=MOST_RECORDS,
    ),
    "sample_rate": Setting(
        label="Sample rate",
        symbol="q",
        unit="probability",
        help="Probability that a record is in the batch of a step.",
        marks=(1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1),
        gt=0,
        le=1,
    ),
    "expected_batch_size": Setting(
        label="Expected batch size",
        symbol="qN",
        unit="records",
        help="Mean batch size. Each record is drawn independently with probability q.",
        marks=(64, 256, 1024, 4096, 16384),
        ends=("cheaper step", "steadier step"),
        step=1,
        ge=1,
    ),
    "steps": Setting(
        label="Steps",
        symbol="T",
        unit="updates",
        help="Number of updates of the model.",
        marks=(10, 30, 100, 300, 1000, 3000),
        ends=("spends less", "learns longer"),
        step=1,
        ge=0,
        le=MAX_STEPS,
    ),
    "epochs": Setting(
        label="Epochs",
        unit="passes over the data",
        help="Mean number of times that a record is used.",
        marks=(1, 3, 10, 30, 100),
        ends=("spends less", "learns longer"),
        gt=0,
        le=10_000,
    ),
    "optimizer": Setting(
        label="Optimizer",
        help="Rule that updates the model with the noisy gradient.",
        choices=OPTIMIZERS,
    ),
    "learning_rate": Setting(
        label="Learning rate",
        symbol="η",
        help="Step size. Clipped gradients have at most norm C, and steps with "
        "momentum m have at most norm ηC/(1 - m): tune the product ηC.",
        marks=(0.1, 1, 10, 100),
        ends=("slower", "bolder"),
        step=0.01,
        gt=0,
        le=10_000,
    ),
    "rate_factor": Setting(
        label="Rate factor",
        help="Factor of the learning rate.",
        marks=(0.01, 0.1, 1, 10),
        gt=0,
        le=1000,
    ),
    "momentum": Setting(
        label="Momentum",
        help="Fraction of the previous step that is added to the next one. SGD only.",
        marks=(0, 0.3, 0.6, 0.9),
        step=0.05,
        ge=0,
        lt=1,
    ),
    "rows": Setting(
        label="Rows",
        help="Features are divided by fixed ranges. Then each row is scaled to norm B, "
        "or scaled down to it if it is longer.",
        choices={"normalize": "scaled to norm B", "clip": "clipped at norm B"},
    ),
    "x_bound": Setting(
        label="Row bound",
        symbol="B",
        unit="row norm",
        help="Maximum norm of a row. It is public and must not come from the data.",
        marks=(0.5, 1, 2, 4),
        gt=0,
        le=100,
    ),
    "y_bound": Setting(
        label="Label bound",
        symbol="Y",
        unit="label",
        help="Labels are clipped to ±Y. Y is public and must not come from the data.",
        marks=(1, 2, 5, 10),
        ends=("bias", "noise"),
        gt=0,
        le=1000,
    ),
    "repetitions": Setting(
        label="Repetitions",
        help="Number of independent descents. The chart shows their median and the "
        "band from 5% to 95%.",
        marks=(20, 50, 100, 200),
        ge=1,
        le=1000,
    ),
    "evaluations": Setting(
        label="Evaluations",
        help="Number of points on the accuracy curve, evenly spread over ε.",
        step=1,
        ge=1,
        le=200,
    ),
    "seed": Setting(
        label="Seed",
        help="Two runs with equal seeds give equal results. Anyone who knows the seed "
        "can subtract the noise.",
        step=1,
        ge=0,
        le=LARGEST_SEED,
    ),
    "methods": Setting(
        label="Methods",
        help="Methods to release. They share ε if there are several.",
        choices=REGRESSION_METHODS,
    ),
    "width": Setting(
        label="Width",
        symbol="d",
        unit="units",
        help="Units of a hidden layer, channels of a convolution, features of a token.",
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
        help="Samples per step. The norm of each sample’s gradient is computed.",
        marks=(1, 8, 64, 512),
        ends=("faster step", "less time per sample"),
        step=1,
        ge=1,
        le=512,
    ),
    "sequence_length": Setting(
        label="Sequence length",
        symbol="T",
        unit="tokens",
        help="Tokens per sample, for the LSTM and the transformer only.",
        marks=(1, 4, 16, 64, 256),
        ends=("norms from products", "norms from gradients"),
        step=1,
        ge=1,
        le=256,
    ),
    "mean_trials": Setting(
        label="Trials on average",
        symbol="E[K]",
        help="Mean number of trials. The number K is drawn from a Poisson distribution "
        "with this mean and is never shown.",
        marks=(1, 5, 10, 20),
        step=1,
        ge=1,
        le=100,
    ),
    "learning_rate_values": Setting(
        label="Learning rates to try",
        symbol="η",
        help="Each trial draws one of these values.",
        words=VALUES,
    ),
    "max_grad_norm_values": Setting(
        label="Clipping bounds to try",
        symbol="C",
        help="Each trial draws one of these values.",
        words=VALUES,
    ),
    "momentum_values": Setting(
        label="Momenta to try",
        help="Each trial draws one of these values. SGD only.",
        words=VALUES,
    ),
} | SCHEDULES
SETTINGS |= ATTACK_SETTINGS


def setting(
    name: str, default: Any, *, group: str, slider: bool = True, **changes: Any
) -> Any:
    """Return the pydantic field of a setting in ``SETTINGS``.

    Args:
        name: Key of ``SETTINGS``, and the name of the field.
        default: Value if none is given.
        group: Heading above the field in the form.
        slider: False omits marks, ends and step.
        changes: Attributes of ``Setting`` that differ in this model; limits may only
            narrow the domain.
    """
    no_slider: dict[str, Any] = {"marks": (), "ends": None, "step": None}
    return (
        SETTINGS[name]
        .narrowed(**({} if slider else no_slider) | changes)
        .field(default, group)
    )


def parameter(name: str, description: str, example: float, **limits: float) -> Any:
    """Return a required pydantic field with a setting's domain, for an API question.

    Args:
        name: Name of the setting.
        description: Meaning of the field, for users of the API.
        example: Value of the field in the example request of the specification.
        limits: Limits that replace or extend the limits of the setting.
    """
    domain: dict[str, Any] = SETTINGS[name].narrowed(**limits).limits
    return Field(description=description, examples=[example], **domain)
