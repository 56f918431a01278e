"""Rules that several layers check alike, each with one wording."""

from __future__ import annotations

from collections.abc import Callable, Collection

from dpsgd_explorer.errors import ConfigError, ExplorerError


def one_of(
    name: str,
    value: object,
    choices: Collection[str],
    error: Callable[[str, str], ExplorerError] = ConfigError,
) -> str:
    """Return the value if it is one of the choices.

    Args:
        name: Subject of the message: an argument, setting or variable.
        value: What came.
        choices: What is allowed, in the order in which the message lists it.
        error: Makes the exception from the name and the message.

    Raises:
        ConfigError: or what ``error`` returns: the value is not among the choices.
    """
    if isinstance(value, str) and value in choices:
        return value
    raise error(name, f"{name} must be one of {', '.join(choices)}, got {value!r}.")
