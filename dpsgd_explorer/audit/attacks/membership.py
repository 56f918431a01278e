"""Membership scores: the larger the score, the more a record looks like a member.

The attacker sees one number per record: log(p / (1 - p)), the logit of the probability
p that the model assigns to the record's label.  The attacker trains shadow models with
the method of the attacked model, on random halves of the records.

Notation: R records, S shadow models, Z records of the population that no model was
trained on.

Sources: Yeom, Giacomelli, Fredrikson and Jha (2018), arXiv:1709.01604; Carlini, Chien,
Nasr, Song, Terzis and Tramèr (2022), arXiv:2112.03570; Zarifzadeh, Liu and Shokri
(2024), arXiv:2312.03262.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpsgd_explorer.errors import ConfigError

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

#: Smallest standard deviation of logits, for shadow models that agree to the last bit.
MIN_SPREAD = 1e-6
#: Smallest number of shadow models with a record, and of shadow models without it.
MIN_SHADOWS = 2
LOG_ROOT_TWO_PI = np.log(np.sqrt(2 * np.pi))
#: Default of the factor gamma in ``relative_likelihood_scores``.
DEFAULT_GAMMA = 1.0


@dataclass(frozen=True)
class Signals:
    """The measurements of an attacker: logits of the label's probability, log(p/(1-p)).

    Shapes: R records under attack, S shadow models, Z records of the population.

    Attributes:
        target: Logits of the attacked model, ``(R,)``.
        shadows: Logits of the shadow models, ``(S, R)``.
        joined: If True, the shadow model was trained on the record, ``(S, R)``.
        population: Logits of the attacked model on the population, ``(Z,)``.
        population_shadows: Logits of the shadow models on the population, ``(S, Z)``.

    Raises:
        ConfigError: Shapes do not fit, a logit is not a number, or a record is in
            fewer than two shadow models or left out of fewer than two.

    Example:
        >>> import numpy as np
        >>> Signals(
        ...     target=np.array([3.5, -0.5]),
        ...     shadows=np.array([[3.0, -1.0], [4.0, 0.0], [0.0, 2.0], [1.0, 3.0]]),
        ...     joined=np.array([[1, 0], [1, 0], [0, 1], [0, 1]], dtype=bool),
        ...     population=np.array([0.0, 1.0]),
        ...     population_shadows=np.zeros((4, 2)),
        ... )
        Signals(2 records, 4 shadow models, 2 records of the population)
    """

    target: Floats
    shadows: Floats
    joined: Bools
    population: Floats
    population_shadows: Floats

    def __repr__(self) -> str:
        return (
            f"Signals({len(self.target)} records, {len(self.shadows)} shadow models, "
            f"{len(self.population)} records of the population)"
        )

    def __post_init__(self) -> None:
        count = len(self.shadows)
        expected = {
            "shadows": (count, len(self.target)),
            "joined": (count, len(self.target)),
            "population_shadows": (count, len(self.population)),
        }
        for name, shape in expected.items():
            values = getattr(self, name)
            if values.shape != shape:
                raise ConfigError(
                    name, f"{name} must have shape {shape}, got {values.shape}."
                )
            if np.isnan(values).any():
                raise ConfigError(name, f"{name} must contain numbers, got nan.")
        inside = self.joined.sum(axis=0)
        if min(inside.min(), (count - inside).min()) < MIN_SHADOWS:
            raise ConfigError(
                "joined",
                f"joined: every record must be in at least {MIN_SHADOWS} shadow models "
                f"and left out of at least {MIN_SHADOWS}, got {inside.min()} to "
                f"{inside.max()} of {count}.",
            )


def loss_scores(signals: Signals) -> Floats:
    """Returns minus the attacked model's loss on each record; no shadow is used.

    Source: Yeom, Giacomelli, Fredrikson and Jha (2018), arXiv:1709.01604.

    Args:
        signals: Measurements; only ``target`` is read.

    Returns:
        Scores ``(R,)`` in nats, at most 0; larger for members.

    Example:
        >>> import numpy as np
        >>> loss_scores(
        ...     Signals(
        ...         target=np.array([3.0, 0.0]),
        ...         shadows=np.zeros((4, 2)),
        ...         joined=np.array([[1, 0], [1, 0], [0, 1], [0, 1]], dtype=bool),
        ...         population=np.zeros(1),
        ...         population_shadows=np.zeros((4, 1)),
        ...     )
        ... ).round(2)
        array([-0.05, -0.69])
    """
    return log_probability(signals.target)


def likelihood_ratio_scores(signals: Signals) -> Floats:
    """Returns the log-likelihood ratio of "member" to "not a member" (LiRA).

    The logits of a record have one normal distribution among the shadow models with
    the record, and another among the shadow models without it.  All records share the
    two variances, as the source does for few shadow models.

    Source: Carlini, Chien, Nasr, Song, Terzis and Tramèr (2022), arXiv:2112.03570.

    Args:
        signals: Measurements; the population is not read.

    Returns:
        Scores ``(R,)`` in nats; above 0 if the logit is likelier for a member.

    Example:
        The first record's logit, 3.5, is the mean of the shadow models with it.

        >>> import numpy as np
        >>> likelihood_ratio_scores(
        ...     Signals(
        ...         target=np.array([3.5, -0.5]),
        ...         shadows=np.array([[3.0, -1.0], [4.0, 0.0], [0.0, 2.0], [1.0, 3.0]]),
        ...         joined=np.array([[1, 0], [1, 0], [0, 1], [0, 1]], dtype=bool),
        ...         population=np.zeros(1),
        ...         population_shadows=np.zeros((4, 1)),
        ...     )
        ... )
        array([ 9., -9.])
    """
    inside = _law(signals.shadows, signals.joined)
    outside = _law(signals.shadows, ~signals.joined)
    return _log_density(signals.target, *inside) - _log_density(
        signals.target, *outside
    )


def relative_likelihood_scores(
    signals: Signals, gamma: float = DEFAULT_GAMMA
) -> Floats:
    """Returns the share of the population that each record beats by gamma (RMIA).

    The compared quantity is the probability of the label under the attacked model,
    divided by its mean under the shadow models.

    Source: Zarifzadeh, Liu and Shokri (2024), arXiv:2312.03262.

    Args:
        signals: Measurements; ``joined`` is not read.
        gamma: Smallest ratio, above 0, of a record's quantity to the quantity of a
            record of the population that it beats.

    Returns:
        Scores ``(R,)`` from 0 to 1; larger for members.

    Example:
        >>> import numpy as np
        >>> relative_likelihood_scores(
        ...     Signals(
        ...         target=np.array([3.0, 0.0]),
        ...         shadows=np.zeros((4, 2)),
        ...         joined=np.array([[1, 0], [1, 0], [0, 1], [0, 1]], dtype=bool),
        ...         population=np.array([-1.0, 1.0]),
        ...         population_shadows=np.zeros((4, 2)),
        ...     )
        ... )
        array([1. , 0.5])
    """
    records = _gain(signals.target, signals.shadows)
    others = np.sort(_gain(signals.population, signals.population_shadows))
    beaten = np.searchsorted(others, records - np.log(gamma), side="right")
    return np.asarray(beaten / len(others))


#: {name of an attack: its function from signals to scores ``(R,)``}.
ATTACKS: dict[str, Callable[[Signals], Floats]] = {
    "loss": loss_scores,
    "likelihood_ratio": likelihood_ratio_scores,
    "relative_likelihood": relative_likelihood_scores,
}


def log_probability(logits: Floats) -> Floats:
    """Returns log p of log(p / (1 - p)), in an array of equal shape."""
    return np.asarray(-np.logaddexp(0.0, -logits))


def _log_density(values: Floats, mean: Floats, std: float) -> Floats:
    """Returns the log density of a normal distribution.

    ``scipy.stats.norm`` returns the same bits, but its import takes a second.
    """
    scaled = (values - mean) / std
    return np.asarray(-(scaled**2) / 2.0 - LOG_ROOT_TWO_PI - np.log(std))


def _law(logits: Floats, among: Bools) -> tuple[Floats, float]:
    """Returns the mean of each record, (R,), and their common standard deviation."""
    counts = among.sum(axis=0)
    means = np.where(among, logits, 0.0).sum(axis=0) / counts
    squares = (np.where(among, logits - means, 0.0) ** 2).sum()
    spread = float(np.sqrt(squares / (counts - 1).sum()))
    return means, max(spread, MIN_SPREAD)


def _gain(target: Floats, shadows: Floats) -> Floats:
    """Returns the log of the target's probability over the mean of the shadows'."""
    usual = np.logaddexp.reduce(log_probability(shadows), axis=0) - np.log(len(shadows))
    return np.asarray(log_probability(target) - usual)
