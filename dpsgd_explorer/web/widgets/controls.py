"""The controls of each widget that a teacher's link may hide or lock.

Templates mark them by ``limits.attributes(name)``, scripts by ``control`` of a grip.
"""

from __future__ import annotations

CONTROLS: dict[str, dict[str, str]] = {
    "randomised-response": {
        "answer": "The visitor’s answer",
        "coins": "The coins",
        "people": "People asked",
        "again": "Ask another crowd",
    },
    "two-worlds": {
        "noise": "Noise multiplier σ",
        "bound": "Clipping bound C",
        "record": "The odd record",
        "rate": "Sampling rate q",
        "count": "Trainings per world",
        "again": "Draw others",
        "threshold": "The attacker’s threshold",
    },
    "one-odd-record": {"record": "The odd record"},
    "microscope": {
        "bound": "Clipping bound C",
        "noise": "Noise multiplier σ",
        "draws": "New noise and new batches",
    },
}


def controls_of(slug: str) -> dict[str, str]:
    """Return the label of each control of a widget, by name."""
    return CONTROLS.get(slug, {})
