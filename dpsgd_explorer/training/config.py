"""What a run is asked to do, checked once, here.

An instance that exists is valid; nothing downstream checks again.  Each field
carries what the form, the API, the command line and the docs say about it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from dpsgd_explorer.accounting import ACCOUNTANTS, Plan
from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.training.catalogue import DATA_SETS, MODELS, DataSet
from dpsgd_explorer.training.messages import config_error

OPTIMIZERS = {"sgd": "SGD", "adam": "Adam"}
CLIPPING_FUNCTIONS = {"Abadi": "Shorten to C", "automatic": "Normalise all to C"}
CLIPPING_STYLES = {"all-layer": "All layers together"}
CLIPPING_MODES = {
    "MixOpt": "Cheapest for each layer",
    "ghost": "Norms from Gram matrices",
    "instantiate": "Store each gradient",
}
DEFAULT_STEPS = 300
DEFAULT_EPSILON = 3.0
LARGEST_SEED = 2**31 - 1


def setting(
    default: Any,
    *,
    label: str,
    help: str,
    group: str,
    symbol: str = "",
    choices: Mapping[str, str] | None = None,
    marks: Iterable[float] = (),
    ends: tuple[str, str] | None = None,
    step: float | None = None,
    **domain: Any,
) -> Any:
    """Return a pydantic field that also says how to ask a person for it.

    Args:
        default: Value when nothing is said.
        label: Name for people.
        help: One or two sentences that stand under the field.
        group: Heading it stands under in the form.
        symbol: Letter of the formulas, "" if it has none.
        choices: Allowed values and their labels.
        marks: Evenly spaced stops of the slider (their spacing tells its scale).
        ends: What gets better at the slider's low and high end.
        step: Smallest sensible change.
        domain: gt, ge, lt, le as pydantic knows them.
    """
    ask: dict[str, Any] = {"label": label, "help": help, "group": group}
    ask |= {"symbol": symbol, "step": step, "marks": list(marks), "ends": ends}
    if choices is not None:
        ask |= {"choices": dict(choices), "enum": list(choices)}
    return Field(
        default, title=label, description=help, json_schema_extra=ask, **domain
    )


class TrainingConfig(BaseModel):
    """The settings of one training run; an instance that exists is valid.

    Exactly one of ``steps`` and ``epochs``, and one of ``noise_multiplier`` and
    ``target_epsilon``, is set; what is left out entirely takes its default.
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, allow_inf_nan=False
    )

    kind: Literal["training"] = "training"
    dataset: str = setting(
        "mnist",
        label="Data set",
        help="What the model learns from.",
        group="Data and model",
        choices={name: data.label for name, data in DATA_SETS.items()},
    )
    model: str = setting(
        "scattering_linear",
        label="Model",
        help="What is trained on it.",
        group="Data and model",
        choices={name: model.label for name, model in MODELS.items()},
    )
    private: bool = setting(
        True,
        label="Train with privacy",
        help="Off: the same batches without clipping or noise. Not private.",
        group="Privacy",
    )
    target_epsilon: float | None = setting(
        None,
        label="Target",
        symbol="ε",
        help="The noise is chosen so that the whole run spends this.",
        group="Privacy",
        gt=0,
        le=1000,
        step=0.1,
        marks=(0.3, 1, 3, 10, 30),
        ends=("more private", "more accurate"),
    )
    noise_multiplier: float | None = setting(
        None,
        label="Noise multiplier",
        symbol="σ",
        help="Standard deviation of the noise on the sum, in units of C.",
        group="Privacy",
        ge=0,
        le=1000,
        step=0.01,
        marks=(0.5, 1, 2, 4, 8),
        ends=("more accurate", "more private"),
    )
    delta: float = setting(
        1e-5,
        label="Slack",
        symbol="δ",
        help="Probability mass the ε-band may leave out; below one over N.",
        group="Privacy",
        gt=0,
        lt=1,
        marks=(1e-9, 1e-8, 1e-7, 1e-6, 1e-5),
    )
    max_grad_norm: float = setting(
        0.1,
        label="Clipping bound",
        symbol="C",
        help="Length a single record's gradient may keep. Does not change ε.",
        group="Privacy",
        gt=0,
        le=1e6,
        step=0.01,
        marks=(0.03, 0.1, 0.3, 1, 3),
        ends=("more bias", "more noise"),
    )
    clipping_fn: str = setting(
        "Abadi",
        label="Clipping function",
        help="Shorten long gradients only, or bring every one to the same length.",
        group="Privacy",
        choices=CLIPPING_FUNCTIONS,
    )
    clipping_style: str = setting(
        "all-layer",
        label="Clipping style",
        help="The length is taken over all layers together.",
        group="Privacy",
        choices=CLIPPING_STYLES,
    )
    clipping_mode: str = setting(
        "MixOpt",
        label="Clipping mode",
        help="How the lengths are computed. The result is the same.",
        group="Privacy",
        choices=CLIPPING_MODES,
    )
    accountant: str = setting(
        "rdp",
        label="Accountant",
        help="How ε is computed.",
        group="Privacy",
        choices={name: entry.label for name, entry in ACCOUNTANTS.items()},
    )
    expected_batch_size: int = setting(
        4096,
        label="Expected batch size",
        symbol="qN",
        help="Every record joins a step with probability q, each by its own coin.",
        group="Optimisation",
        ge=1,
        step=1,
        marks=(64, 256, 1024, 4096, 16384),
        ends=("cheaper step", "steadier step"),
    )
    steps: int | None = setting(
        None,
        label="Steps",
        symbol="T",
        help="Updates of the model.",
        group="Optimisation",
        ge=1,
        le=100_000,
        step=1,
        marks=(10, 30, 100, 300, 1000, 3000),
        ends=("spends less", "learns longer"),
    )
    epochs: float | None = setting(
        None,
        label="Epochs",
        help="Instead of steps: how often a record is used on average.",
        group="Optimisation",
        gt=0,
        le=10_000,
        step=0.5,
    )
    optimizer: str = setting(
        "sgd",
        label="Optimizer",
        help="What turns the noisy gradient into a step.",
        group="Optimisation",
        choices=OPTIMIZERS,
    )
    learning_rate: float = setting(
        8.0,
        label="Learning rate",
        symbol="η",
        help="Clipped gradients are at most C long, so tune η times C.",
        group="Optimisation",
        gt=0,
        le=10_000,
        step=0.01,
        marks=(0.1, 1, 10, 100),
        ends=("slower", "bolder"),
    )
    momentum: float = setting(
        0.9,
        label="Momentum",
        help="Share of the last step that is kept. Used by SGD.",
        group="Optimisation",
        ge=0,
        lt=1,
        step=0.05,
        marks=(0, 0.25, 0.5, 0.75),
    )
    stop_at_epsilon: float | None = setting(
        None,
        label="Stop at",
        symbol="ε",
        help="End before the step that would spend more. Empty: run all steps.",
        group="Run",
        gt=0,
        le=1000,
        step=0.1,
    )
    evaluations: int = setting(
        40,
        label="Evaluations",
        help="Points on the accuracy curve, evenly spread over ε.",
        group="Run",
        ge=1,
        le=200,
        step=1,
    )
    seed: int = setting(
        7,
        label="Seed",
        help="Repeats the run exactly. Whoever knows it can take the noise away.",
        group="Run",
        ge=0,
        le=LARGEST_SEED,
        step=1,
    )

    @classmethod
    def parse(cls, values: object) -> Self:
        """Build from JSON values; ConfigError names each field, its rule and value."""
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            raise config_error(error, cls) from None

    @classmethod
    def from_query(cls, values: Mapping[str, str]) -> Self:
        """Build from the text of a query string or form; "" means not given."""
        return cls.parse(
            {name: _from_text(cls, name, text) for name, text in values.items() if text}
        )

    @model_validator(mode="before")
    @classmethod
    def _fill_pairs(cls, values: Any) -> Any:
        """Give a pair its default only if neither of the two was said."""
        if not isinstance(values, dict):
            return values
        filled = dict(values)
        if filled.get("steps") is None and filled.get("epochs") is None:
            filled["steps"] = DEFAULT_STEPS
        if filled.get("noise_multiplier") is None:
            filled.setdefault("target_epsilon", DEFAULT_EPSILON)
            if filled["target_epsilon"] is None:
                filled["target_epsilon"] = DEFAULT_EPSILON
        return filled

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        for name, field in type(self).model_fields.items():
            _check_choice(name, getattr(self, name), _ask(field).get("choices"))
        _check_pair(self, "steps", "epochs")
        _check_pair(self, "noise_multiplier", "target_epsilon")
        fitting = [name for name in MODELS if self.dataset in MODELS[name].parameters]
        if self.model not in fitting:
            raise ConfigError(
                "model",
                f"model {self.model!r} does not fit data set {self.dataset!r}; "
                f"fitting: {', '.join(fitting)}.",
            )
        if self.expected_batch_size > self.sample_size:
            raise ConfigError(
                "expected_batch_size",
                f"expected_batch_size must be at most N = {self.sample_size}, "
                f"got {self.expected_batch_size}.",
            )
        if self.delta >= 1 / self.sample_size:
            raise ConfigError(
                "delta",
                f"delta must be below 1/N = 1/{self.sample_size}, got {self.delta:g}.",
            )
        return self

    @property
    def data(self) -> DataSet:
        """The data set's public facts."""
        return DATA_SETS[self.dataset]

    @property
    def sample_size(self) -> int:
        """Records to learn from, N."""
        return self.data.train_size

    @cached_property
    def plan(self) -> Plan:
        """Sampling, noise and steps of the run, as the accountant is told them.

        Raises:
            ConfigError: no noise reaches the target.
        """
        return Plan.create(
            sample_size=self.sample_size,
            expected_batch_size=self.expected_batch_size,
            steps=self.steps,
            epochs=self.epochs,
            noise_multiplier=self.noise_multiplier if self.private else 0.0,
            target_epsilon=self.target_epsilon if self.private else None,
            delta=self.delta,
            accountant=self.accountant,
        )

    @property
    def evaluation_steps(self) -> list[int]:
        """Steps after which the test set is predicted, evenly spread over ε.

        ε grows about with the root of the steps, hence the squares.
        """
        total, points = self.plan.steps, self.evaluations
        return sorted(
            {math.ceil(total * (i / points) ** 2) for i in range(1, points + 1)}
        )


def _ask(field: Any) -> dict[str, Any]:
    extra = field.json_schema_extra
    return extra if isinstance(extra, dict) else {}


def _check_choice(name: str, value: object, choices: Mapping[str, str] | None) -> None:
    if choices is not None and value not in choices:
        raise ConfigError(
            name, f"{name} must be one of {', '.join(choices)}, got {value!r}."
        )


def _check_pair(config: TrainingConfig, first: str, second: str) -> None:
    a, b = getattr(config, first), getattr(config, second)
    if a is not None and b is not None:
        raise ConfigError(
            first,
            f"give {first} or {second}, not both; got {first} = {a:g} "
            f"and {second} = {b:g}.",
        )


def _from_text(cls: type[BaseModel], name: str, text: str) -> object:
    """Read a number or a truth value where the field wants one; else keep the text."""
    field = cls.model_fields.get(name)
    wanted = str(field.annotation) if field else ""
    if "bool" in wanted:
        return {"true": True, "1": True, "on": True, "false": False, "0": False}.get(
            text.lower(), text
        )
    for kind in (int, float):
        if kind.__name__ in wanted:
            try:
                return kind(text)
            except ValueError:
                continue
    return text
