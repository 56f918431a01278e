"""What a saved state must agree with before a run goes on from it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpsgd_explorer.errors import ConfigError, PrivacyError

STATE_VERSION = 4


def check_same_run(state: Mapping[str, Any], own: Mapping[str, Any]) -> None:
    """Raise ConfigError if the state belongs to a run with other settings."""
    for name, value in own.items():
        if state.get(name) != value:
            raise ConfigError(
                name,
                f"the saved {name} must be this engine's, {value}; "
                f"got {state.get(name)}.",
            )


def refuse_in_flight(in_flight: bool, done: str) -> None:
    """Raise PrivacyError if a batch has been drawn and not used."""
    if in_flight:
        raise PrivacyError(
            f"the engine cannot be {done} between a batch's draw and its step: the "
            "noise of that step would be used twice. Do it after step()."
        )
