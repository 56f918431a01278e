"""The scores and coins of an audit as text, from which its bounds follow again."""

from __future__ import annotations

import base64
import binascii
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dpsgd_explorer.accounting.auditing.error_rates import Scores
from dpsgd_explorer.accounting.core import validation
from dpsgd_explorer.accounting.core.intervals import Floats

#: Scores are stored as these: little-endian, whatever the machine.
STORED = np.dtype("<f4")
#: Larger ones count as this, which float32 holds with room for rounding.
MOST_SCORE = 1e38


class Evidence(NamedTuple):
    """What the canaries of a run leave, in their order.

    Attributes:
        values: Scores of each plan of the run, float64 [P, m], all float32 numbers.
        joined: Coins, bool [m]: who was a member.
    """

    values: Floats
    joined: npt.NDArray[np.bool_]

    @classmethod
    def rounded(cls, values: Floats, joined: npt.NDArray[np.bool_]) -> Evidence:
        """Round each score to float32, a member's down and any other's up.

        A test of fixed threshold therefore counts no right guess more than before.

        Shapes: values [P, m], or [m] of one plan; joined [m].
        """
        exact = np.clip(np.atleast_2d(values), -MOST_SCORE, MOST_SCORE)
        near = exact.astype(STORED)
        too_strong = np.where(joined, near > exact, near < exact)
        away = np.where(joined, -np.inf, np.inf).astype(STORED)
        weaker = np.where(too_strong, np.nextafter(near, away), near)
        return cls(weaker.astype(np.float64), joined)

    @property
    def scores(self) -> Scores:
        """Their sums over the plans, members apart from others.

        Raises:
            AccountingError: a score is not a number.
        """
        return Scores.of(self.values.sum(axis=0), self.joined)

    @property
    def plan_scores(self) -> list[Scores]:
        """Those of each plan, members apart from others."""
        return [Scores.of(values, self.joined) for values in self.values]

    def as_data(self) -> dict[str, str]:
        """Return base64 texts: scores as little-endian float32, coins as bits."""
        return {
            "scores": _text(self.values.astype(STORED).tobytes()),
            "joined": _text(np.packbits(self.joined).tobytes()),
        }

    @classmethod
    def from_data(
        cls, scores: str, joined: str, canaries: int, plans: int = 1
    ) -> Evidence:
        """Read the texts of ``as_data``.

        Args:
            scores: As written.
            joined: As written.
            canaries: Their number, m.
            plans: Number of plans, P.

        Raises:
            AccountingError: a text is damaged, or not of so many canaries and plans.
        """
        values = _bytes("scores", scores, plans * canaries * STORED.itemsize)
        coins = _bytes("joined", joined, -(-canaries // 8))
        bits = np.unpackbits(np.frombuffer(coins, dtype=np.uint8))
        if bits[canaries:].any():
            validation.refuse("joined", "0 beyond the last canary", joined[-4:])
        floats = np.frombuffer(values, dtype=STORED).astype(np.float64)
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
