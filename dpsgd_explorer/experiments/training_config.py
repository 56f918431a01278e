"""What a run is asked to do, checked once, here.

An instance that exists is valid; nothing downstream checks again.  Each field
carries what the form, the API, the command line and the docs say about it.
"""

from __future__ import annotations

from functools import cached_property, lru_cache
from typing import Any, ClassVar, Literal, Self

from pydantic import model_validator

from dpsgd_explorer.accounting import ACCOUNTANTS, Plan
from dpsgd_explorer.accounting.plan import steps_of
from dpsgd_explorer.accounting.registry import ALL
from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.experiments.catalogue import DATA_SETS, MODELS, DataSet
from dpsgd_explorer.experiments.config import (
    LARGEST_SEED,
    RunConfig,
    check_pair,
    evenly_spent,
    setting,
)

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
PLANS = 256  # that are remembered
DEFAULT_STEPS = 300
DEFAULT_EPSILON = 3.0
# A training step is a forward pass, a backward pass for the outputs of the layers, and
# one weighted contraction for the parameters; each costs about as much as the first.
PASSES = 3
# What else an engine takes for a record, in multiply-adds.  Measured.
COST_OF_RECORD = {"microbatch": 6e6}
# The engine that holds every record's gradient at once, and how much that may take.
HOLDS_GRADIENTS = "vmap"
MOST_HELD_BYTES = 2**30


class TrainingConfig(RunConfig):
    """The settings of one training run; an instance that exists is valid.

    Exactly one of ``steps`` and ``epochs``, and one of ``noise_multiplier`` and
    ``target_epsilon``, is set; what is left out entirely takes its default.
    """

    TO_COST_LESS: ClassVar[str] = "a smaller expected_batch_size or a smaller model"

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
        help="Shorten long gradients, bring all to one length, or leave long ones out.",
        group="Privacy",
        choices=CLIPPING_FUNCTIONS,
    )
    clipping_style: str = setting(
        "all-layer",
        label="Clipping style",
        help="What is measured and clipped together; n blocks get C/√n each.",
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
    engine: str = setting(
        "hooks",
        label="Engine",
        help="What computes each record’s gradient. The result is the same.",
        group="Privacy",
        choices=ENGINES,
    )
    accountant: str = setting(
        "exact",
        label="Accountant",
        help="How ε is computed.",
        group="Privacy",
        choices={name: entry.label for name, entry in ACCOUNTANTS.items()}
        | {ALL: "All; the exact one decides"},
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
        label="Stopping budget",
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
        check_pair(self, "steps", "epochs")
        check_pair(self, "noise_multiplier", "target_epsilon")
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
        self._check_held()
        return self

    def _check_held(self) -> None:
        parameters = MODELS[self.model].parameters[self.dataset]
        held = 4 * self.expected_batch_size * parameters
        if self.private and self.engine == HOLDS_GRADIENTS and held > MOST_HELD_BYTES:
            raise ConfigError(
                "engine",
                f"engine {self.engine!r} holds every record's gradient at once, here "
                f"{held / 2**30:.1f} GiB; at most {MOST_HELD_BYTES / 2**30:.0f} will "
                "do. Take a smaller expected_batch_size or another engine.",
            )

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
        return self._plan(quick=False)

    @cached_property
    def preliminary_plan(self) -> Plan:
        """The same with noise that is quickly found: at least that of ``plan``."""
        return self._plan(quick=True)

    def _plan(self, *, quick: bool) -> Plan:
        return _planned(
            sample_size=self.sample_size,
            expected_batch_size=self.expected_batch_size,
            steps=self.steps,
            epochs=self.epochs,
            noise_multiplier=self.noise_multiplier if self.private else 0.0,
            target_epsilon=self.target_epsilon if self.private else None,
            delta=self.delta,
            accountant=self.accountant,
            quick=quick,
        )

    @property
    def planned_steps(self) -> int:
        """Steps of the run, if nothing ends it early."""
        if self.steps is not None:
            return self.steps
        assert self.epochs is not None, "one of the two is set"
        return steps_of(self.epochs, self.sample_size, self.expected_batch_size)

    def check_reachable(self) -> None:
        """Raise ConfigError if no noise reaches the target."""
        if self.private and self.target_epsilon is not None:
            _ = self.plan

    @property
    def length_setting(self) -> str:
        """The setting that says how long the run is."""
        return "steps" if self.epochs is None else "epochs"

    @property
    def cost(self) -> float:
        """Multiply-adds of training and evaluations together."""
        one_record = MODELS[self.model].multiply_adds[self.dataset]
        trained = self.planned_steps * self.expected_batch_size
        predicted = len(self.evaluation_steps) * self.data.test_size
        more = COST_OF_RECORD.get(self.engine, 0.0) if self.private else 0.0
        return float(one_record * (PASSES * trained + predicted) + more * trained)

    @property
    def evaluation_steps(self) -> list[int]:
        """Steps after which the test set is predicted, evenly spread over ε."""
        return evenly_spent(self.planned_steps, self.evaluations)


@lru_cache(maxsize=PLANS)
def _planned(**numbers: Any) -> Plan:
    """Return a plan; those asked for last are not searched for again."""
    return Plan.create(**numbers)
