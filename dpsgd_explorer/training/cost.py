"""What a run costs, known before it is queued; loads no torch."""

from __future__ import annotations

from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.training.catalogue import MODELS
from dpsgd_explorer.training.config import TrainingConfig

# A training step is a forward pass, a backward pass for the outputs of the layers, and
# one weighted contraction for the parameters; each costs about as much as the first.
PASSES = 3


def cost(config: TrainingConfig) -> float:
    """Return the multiply-adds of a run's training and evaluations together."""
    one_record = MODELS[config.model].multiply_adds[config.dataset]
    trained = config.plan.steps * config.expected_batch_size
    predicted = len(config.evaluation_steps) * config.data.test_size
    return float(one_record * (PASSES * trained + predicted))


def check_cost(config: TrainingConfig, bound: float) -> None:
    """Raise ConfigError, naming the field to lower, if a run costs more."""
    price = cost(config)
    if price > bound:
        field = "steps" if config.epochs is None else "epochs"
        raise ConfigError(
            field,
            f"{field}: a run may need at most {bound:.2g} multiply-adds, got "
            f"{price:.2g}. Take fewer {field}, a smaller expected_batch_size or a "
            "smaller model.",
        )
