"""Scores of membership: how much more a record looks like a member than like another.

The attacker sees one number per record: the logit of the probability that it gives
to the record's label, log(p / (1 - p)).  Shadow models are trained by the attacker, in
the same way as the target, on halves that it draws itself.

Notation: R records, S shadows, Z records of the population that no model was trained
on.

Sources: Yeom, Giacomelli, Fredrikson and Jha (2018), arXiv:1709.01604; Carlini, Chien,
Nasr, Song, Terzis and Tramèr (2022), arXiv:2112.03570; Zarifzadeh, Liu and Shokri
(2024), arXiv:2312.03262.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from dpsgd_explorer.errors import ConfigError

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

LEAST_SPREAD = 1e-6  # of logits: shadows that agree to the last bit say no more
FEWEST = 2  # shadows with a record, and without it
GAMMA = 1.0  # how many times as likely as another record a member must have become


@dataclass(frozen=True)
class Signals:
    """What an attacker has measured.

    Attributes:
        target: Logits of the attacked model, [R].
        shadows: Logits of the shadow models, [S, R].
        joined: Which shadow was trained on which record, [S, R].
        population: Logits of the target on other records, [Z].
        population_shadows: Those of the shadows, [S, Z].

    Raises:
        ConfigError: shapes do not fit, a logit is not a number, or a record is in
            fewer than two shadows or outside of fewer than two.
    """

    target: Floats
    shadows: Floats
    joined: Bools
    population: Floats
    population_shadows: Floats

    def __post_init__(self) -> None:
        count = len(self.shadows)
        expected = {
            "shadows": (count, len(self.target)),
            "joined": (count, len(self.target)),
            "population_shadows": (count, len(self.population)),
        }
        for name, shape in expected.items():
            found = getattr(self, name)
            if found.shape != shape:
                raise ConfigError(
                    name, f"{name} must have shape {shape}, got {found.shape}."
                )
            if np.isnan(found).any():
                raise ConfigError(name, f"{name} must contain numbers, got nan.")
        inside = self.joined.sum(axis=0)
        if min(inside.min(), (count - inside).min()) < FEWEST:
            raise ConfigError(
                "joined",
                f"joined: every record must be in at least {FEWEST} shadow models and "
                f"left out of at least {FEWEST}, got {inside.min()} to {inside.max()} "
                f"of {count}.",
            )


def loss_scores(signals: Signals) -> Floats:
    """Return minus the target's loss on each record, [R]."""
    return log_probability(signals.target)


def likelihood_ratio_scores(signals: Signals) -> Floats:
    """Return the log of how much likelier the logit is of a member; [R].

    Each record has a normal law among the shadows with it and another among those
    without; as in the source for few shadows, all records share both variances.
    """
    inside = _law(signals.shadows, signals.joined)
    outside = _law(signals.shadows, ~signals.joined)
    found: Floats = stats.norm.logpdf(signals.target, *inside) - stats.norm.logpdf(
        signals.target, *outside
    )
    return found


def relative_likelihood_scores(signals: Signals, gamma: float = GAMMA) -> Floats:
    """Return the share of the population that a record beats by gamma; [R].

    Compared is the probability of the label under the target over its mean under the
    shadows.
    """
    records = _gain(signals.target, signals.shadows)
    others = np.sort(_gain(signals.population, signals.population_shadows))
    beaten = np.searchsorted(others, records - np.log(gamma), side="right")
    return np.asarray(beaten / len(others))


#: {name of an attack: its scores}.
ATTACKS: dict[str, Callable[[Signals], Floats]] = {
    "loss": loss_scores,
    "likelihood_ratio": likelihood_ratio_scores,
    "relative_likelihood": relative_likelihood_scores,
}


def log_probability(logits: Floats) -> Floats:
    """Return log p of log(p / (1 - p)), of the same shape."""
    return np.asarray(-np.logaddexp(0.0, -logits))


def _law(logits: Floats, among: Bools) -> tuple[Floats, float]:
    """Return the mean of each record, [R], and the spread that all share."""
    counts = among.sum(axis=0)
    means = np.where(among, logits, 0.0).sum(axis=0) / counts
    squares = (np.where(among, logits - means, 0.0) ** 2).sum()
    spread = float(np.sqrt(squares / (counts - 1).sum()))
    return means, max(spread, LEAST_SPREAD)


def _gain(target: Floats, shadows: Floats) -> Floats:
    """Return the log of the target's probability over the mean of the shadows'."""
    usual = np.logaddexp.reduce(log_probability(shadows), axis=0) - np.log(len(shadows))
    return np.asarray(log_probability(target) - usual)
