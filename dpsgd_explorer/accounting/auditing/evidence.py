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
        values: Scores, float64 [m]; each is a float32 number.
        joined: Coins, bool [m]: who was a member.
    """

    values: Floats
    joined: npt.NDArray[np.bool_]

    @classmethod
    def rounded(cls, values: Floats, joined: npt.NDArray[np.bool_]) -> Evidence:
        """Round each score to float32, a member's down and any other's up.

        A test of fixed threshold therefore counts no right guess more than before.
        """
        exact = np.clip(values, -MOST_SCORE, MOST_SCORE)
        near = exact.astype(STORED)
        too_strong = np.where(joined, near > exact, near < exact)
        away = np.where(joined, -np.inf, np.inf).astype(STORED)
        weaker = np.where(too_strong, np.nextafter(near, away), near)
        return cls(weaker.astype(np.float64), joined)

    @property
    def scores(self) -> Scores:
        """The same, members apart from others.

        Raises:
            AccountingError: a score is not a number.
        """
        return Scores.of(self.values, self.joined)

    def as_data(self) -> dict[str, str]:
        """Return base64 texts: scores as little-endian float32, coins as bits."""
        return {
            "scores": _text(self.values.astype(STORED).tobytes()),
            "joined": _text(np.packbits(self.joined).tobytes()),
        }

    @classmethod
    def from_data(cls, scores: str, joined: str, canaries: int) -> Evidence:
        """Read the texts of ``as_data``.

        Raises:
            AccountingError: a text is damaged, or not of so many canaries.
        """
        values = _bytes("scores", scores, canaries * STORED.itemsize)
        coins = _bytes("joined", joined, -(-canaries // 8))
        bits = np.unpackbits(np.frombuffer(coins, dtype=np.uint8))
        if bits[canaries:].any():
            validation.refuse("joined", "0 beyond the last canary", joined[-4:])
        floats = np.frombuffer(values, dtype=STORED).astype(np.float64)
        if not np.isfinite(floats).all():
            validation.refuse("scores", "finite", floats[~np.isfinite(floats)][0])
        return cls(floats, bits[:canaries].astype(np.bool_))


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
