"""Functions that several commands use: types of options, and error messages."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping
from typing import NoReturn

#: Help text of --delta.
DELTA_HELP = (
    "δ of the guarantee, far below 1/N for N records: δ = 1/N permits publishing one "
    "whole record"
)

#: {pattern of argparse's message: message of this program}.
USAGE_ERRORS = {
    r"argument (\S+): invalid choice: (.*) \(choose from (.*)\)": (
        r"\1 must be one of \3, got \2."
    ),
    r"argument (\S+): expected one argument": r"\1 must be followed by a value.",
    r"argument (\S+): not allowed with argument (\S+)": r"\1 excludes \2.",
    r"argument (\S+): (must .*)": r"\1 \2.",
    r"the following arguments are required: (.*)": r"\1 must be given.",
    r"one of the arguments (.*) is required": r"One of \1 must be given.",
    r"ambiguous option: (\S+) could match (.*)": r"\1 is short for each of \2.",
    r"unrecognized arguments: (.*)": r"No option or argument is named \1.",
}


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line, in the form of this package's errors."""

    def error(self, message: str) -> NoReturn:
        """Prints the error to standard error and exits with code 2."""
        for theirs, ours in USAGE_ERRORS.items():
            if match := re.fullmatch(theirs, message, re.DOTALL):
                message = match.expand(ours)
                break
        name = self.prog.partition(" ")[2] or self.prog
        self.exit(2, f"{name}: {message} See {self.prog} --help.\n")


def number(text: str) -> float:
    """Returns the number in a text.

    Raises:
        ArgumentTypeError: the text is not a number.
    """
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a number, got {text!r}") from None


def whole_number(text: str) -> int:
    """Returns the whole number in a text.

    Raises:
        ArgumentTypeError: the text is not a whole number.
    """
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"must be a whole number, got {text!r}"
        ) from None


def seed(text: str) -> int:
    """Returns the seed in a text, a whole number of 0 or more.

    Raises:
        ArgumentTypeError: the text is not a seed.
    """
    if (value := whole_number(text)) < 0:
        raise argparse.ArgumentTypeError(
            f"must be a whole number, 0 or more, got {text!r}"
        )
    return value


def with_flags(message: str, field: str, flags: Mapping[str, str]) -> str:
    """Returns a message with the names of options instead of Python names.

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
