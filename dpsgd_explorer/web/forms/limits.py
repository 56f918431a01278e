"""Controls that a teacher's link hides and locks: ``?hide=bound,record&lock=noise``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from markupsafe import Markup
from werkzeug.datastructures import MultiDict

from dpsgd_explorer.errors import ConfigError

HIDE, LOCK = "hide", "lock"
WAY_OUT = "Take it out of the address, or build the link again under Teach."


@dataclass(frozen=True)
class Limits:
    """Controls that cannot be set: hidden ones, and locked ones with fixed values."""

    hidden: frozenset[str] = frozenset()
    locked: frozenset[str] = frozenset()

    def attributes(self, control: str) -> Markup:
        """Returns the attributes of a control's fieldset or button."""
        state = (
            " hidden"
            if control in self.hidden
            else " disabled"
            if control in self.locked
            else ""
        )
        return Markup(' data-control="{}"{}').format(control, Markup(state))

    @property
    def query(self) -> dict[str, str]:
        """The limits as names and texts of a query."""
        sets = {HIDE: self.hidden, LOCK: self.locked}
        return {name: ",".join(sorted(names)) for name, names in sets.items() if names}


FREE = Limits()


def read_limits(
    query: MultiDict[str, str], controls: Mapping[str, str], subject: str
) -> Limits:
    """Returns the limits of a query.

    Args:
        query: The query; other names are ignored.
        controls: Labels of all controls, by name.
        subject: Owner of the controls, for messages.

    Raises:
        ConfigError: A name is not a control, or is both hidden and locked.
    """
    hidden, locked = (
        frozenset(name for text in query.getlist(effect) for name in text.split(","))
        - {""}
        for effect in (HIDE, LOCK)
    )
    for effect, names in ((HIDE, hidden), (LOCK, locked)):
        for name in sorted(names - controls.keys()):
            raise ConfigError(
                effect,
                f"{effect} must name controls of {subject} "
                f"({', '.join(controls) or 'it has none'}), got {name!r}. {WAY_OUT}",
            )
    for name in sorted(hidden & locked):
        raise ConfigError(
            HIDE,
            f"a control of {subject} must be either hidden or locked, got both for "
            f"{name!r}. {WAY_OUT}",
        )
    return Limits(hidden, locked)
