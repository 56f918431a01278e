"""The scores and coins of an audit as text, so that its bounds can be recomputed."""

from __future__ import annotations

import base64
import binascii
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dpsgd_explorer.accounting.auditing.error_rates import Scores
from dpsgd_explorer.accounting.core import validation
from dpsgd_explorer.accounting.core.intervals import Floats

#: Type of stored scores: little-endian float32 on every machine.
SCORE_TYPE = np.dtype("<f4")
#: Largest size of a stored score: float32 holds it, with room for rounding.
MAX_SCORE = 1e38


class Evidence(NamedTuple):
    """Scores and coins of the canaries of a run, in the order of the canaries.

    Attributes:
        values: Scores of each plan of the run, float64 [P, m], all float32 numbers.
        joined: Coins, bool [m]: True for a canary that joined the training.
    """

    values: Floats
    joined: npt.NDArray[np.bool_]

    @classmethod
    def rounded(cls, values: Floats, joined: npt.NDArray[np.bool_]) -> Evidence:
        """Rounds each score to float32: scores of members down, all others up.

        Rounding therefore never adds a right guess to a test with a fixed threshold.

        Shapes: values [P, m], or [m] of one plan; joined [m].
        """
        exact = np.clip(np.atleast_2d(values), -MAX_SCORE, MAX_SCORE)
        rounded = exact.astype(SCORE_TYPE)
        is_stronger = np.where(joined, rounded > exact, rounded < exact)
        away = np.where(joined, -np.inf, np.inf).astype(SCORE_TYPE)
        weaker = np.where(is_stronger, np.nextafter(rounded, away), rounded)
        return cls(weaker.astype(np.float64), joined)

    @property
    def scores(self) -> Scores:
        """Scores summed over the plans, split into members and others.

        Raises:
            AccountingError: a score is not a number.
        """
        return Scores.of(self.values.sum(axis=0), self.joined)

    @property
    def plan_scores(self) -> list[Scores]:
        """Scores of each plan, split into members and others."""
        return [Scores.of(values, self.joined) for values in self.values]

    def as_data(self) -> dict[str, str]:
        """Returns base64 texts: scores as little-endian float32, coins as bits."""
        return {
            "scores": _text(self.values.astype(SCORE_TYPE).tobytes()),
            "joined": _text(np.packbits(self.joined).tobytes()),
        }

    @classmethod
    def from_data(
        cls, scores: str, joined: str, canaries: int, plans: int = 1
    ) -> Evidence:
        """Reads the texts of ``as_data``.

        Args:
            scores: Text of the scores.
            joined: Text of the coins.
            canaries: Number m of canaries.
            plans: Number P of plans.

        Raises:
            AccountingError: a text is damaged, or has another number of canaries or
                plans.
        """
        values = _bytes("scores", scores, plans * canaries * SCORE_TYPE.itemsize)
        coins = _bytes("joined", joined, -(-canaries // 8))
        bits = np.unpackbits(np.frombuffer(coins, dtype=np.uint8))
        if bits[canaries:].any():
            validation.refuse("joined", "0 beyond the last canary", joined[-4:])
        floats = np.frombuffer(values, dtype=SCORE_TYPE).astype(np.float64)
        if not np.isfinite(floats).all():
            validation.refuse("scores", "finite", floats[~np.isfinite(floats)][0])
        return cls(floats.reshape(plans, canaries), bits[:canaries].astype(np.bool_))


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _bytes(name: str, text: str, size: int) -> bytes:
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        validation.refuse(name, "base64 text", text[:20])
    if _text(data) != text:
        validation.refuse(name, "base64 text without spare bits", text[-4:])
    if len(data) != size:
        validation.refuse(name, f"{size} bytes as base64", f"{len(data)}")
    return data
