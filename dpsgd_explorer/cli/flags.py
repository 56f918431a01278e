"""Options: their names in error messages, and a text that several commands share."""

from __future__ import annotations

import re
from collections.abc import Mapping

#: Help text of --delta.
DELTA_HELP = (
    "δ of the guarantee, far below 1/N for N records: δ = 1/N permits publishing one "
    "whole record"
)


def with_flags(message: str, field: str, flags: Mapping[str, str]) -> str:
    """Return a message in which arguments have the names of their options.

    A name of one word, such as steps, is also a word of prose: it is replaced at the
    start of the message if it is the field, and in an assignment such as steps = 5.

    Args:
        message: Message of an error that a Python function raised.
        field: Name of the argument at fault, "" if unknown.
        flags: Option by the name of the argument.
    """
    names = "|".join(map(re.escape, flags))

    def option(match: re.Match[str]) -> str:
        value = match["value"]
        return flags[match["name"]] + (f" {value}" if value else "")

    assigned = rf"(?<![\w-])(?P<name>{names}) = \"?(?P<value>[\w.]*\w)\"?"
    message = re.sub(assigned, option, message)
    if field in flags:
        message = re.sub(rf"^{field}\b", flags[field], message)
    long = "|".join(name for name in flags if "_" in name)
    return re.sub(rf"(?<![\w-])({long})\b", lambda match: flags[match[1]], message)
