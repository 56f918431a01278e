"""Correlated noise of a training run: its strategy, and the settings that it rejects.

The setting ``noise_bands`` is the number of bands b of a banded Toeplitz strategy.  One
band is independent noise.  See ``accounting.correlated.strategies``.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Protocol

from dpsgd_explorer.accounting import (
    ToeplitzStrategy,
    banded_strategy,
    momentum_workload,
)
from dpsgd_explorer.accounting.sampling_schemes import POISSON
from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.experiments.schedules import CONSTANT

MOST_BANDS = 16
#: Limit of the noise of earlier steps that a run stores, in bytes.
MOST_NOISE_BYTES = 2**26
CACHED = 64


class Correlatable(Protocol):
    """The part of ``TrainingConfig`` that this module uses."""

    @property
    def has_correlated_noise(self) -> bool: ...

    @property
    def noise_bands(self) -> int: ...

    @property
    def sampling(self) -> str: ...

    @property
    def audit(self) -> int: ...

    @property
    def noise_schedule(self) -> str: ...

    @property
    def clipping_schedule(self) -> str: ...

    @property
    def sample_size(self) -> int: ...

    @property
    def expected_batch_size(self) -> int: ...

    @property
    def planned_steps(self) -> int: ...

    @property
    def parameters(self) -> int: ...


def check_bands(config: Correlatable) -> None:
    """Reject settings that a run with correlated noise does not have.

    Raises:
        ConfigError: names the invalid setting.
    """
    if not config.has_correlated_noise:
        return
    bands = config.noise_bands
    if config.sampling != POISSON:
        raise ConfigError(
            "noise_bands",
            "noise_bands must be 1 with random allocation, got "
            f"{bands}: correlated noise needs Poisson sampling from groups of records.",
        )
    if config.audit:
        raise ConfigError(
            "audit",
            "audit must be 0 with correlated noise: the scores of canaries assume "
            "independent noise. Choose one noise band, or no canaries.",
        )
    for name in ("noise_schedule", "clipping_schedule"):
        if getattr(config, name) != CONSTANT:
            raise ConfigError(
                name,
                f"{name} must be {CONSTANT!r} with correlated noise, which needs the "
                "same noise and the same clipping bound in every step, got "
                f"{getattr(config, name)!r}. Choose one noise band to change them.",
            )
    most = min(config.sample_size // config.expected_batch_size, config.planned_steps)
    if bands > most:
        raise ConfigError(
            "noise_bands",
            f"noise_bands must be at most {most}, got {bands}: each band needs a step, "
            "and a group of at least as many records as a batch. Take fewer bands, "
            "more steps or smaller batches.",
        )
    stored_bytes = 4 * (bands - 1) * config.parameters
    if stored_bytes > MOST_NOISE_BYTES:
        raise ConfigError(
            "noise_bands",
            f"noise_bands stores the noise of earlier steps, at most "
            f"{MOST_NOISE_BYTES / 2**20:.0f} MiB, here {stored_bytes / 2**20:.0f} MiB "
            f"for {bands} bands. Take fewer bands or a smaller model.",
        )


@lru_cache(maxsize=CACHED)
def strategy_of(
    steps: int, bands: int, optimizer: str, momentum: float
) -> ToeplitzStrategy:
    """Return the banded strategy with the smallest error of a run's parameters.

    For SGD with momentum, these are the weighted sums that its parameters contain.
    Adam rescales each gradient, so its strategy is the one of plain sums.
    """
    weight = momentum if optimizer == "sgd" else 0.0
    return banded_strategy(steps, bands, momentum_workload(steps, weight))
