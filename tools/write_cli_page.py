"""Writes the options of docs/reference/cli.md from the parser of the command line.

Run as ``python -m tools.write_cli_page``.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from pathlib import Path

from dpsgd_explorer.cli.main import (
    CLOSED,
    FAILED,
    OF_THE_SITE,
    REFUSED,
    STOPPED,
    parser,
)
from tools.marked_text import write

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "cli.md"
TABLE = "| argument | required | meaning |\n|---|---|---|\n"
CODE = re.compile(r"--[a-z][a-z-]*( \"[^\"]*\")?|\b[A-Z]+_[A-Z_]+\b|\{\}")
EXIT_CODES = {
    0: "The command has finished.",
    FAILED: (
        "A check has found a fault: `doctor`, `verify`, `database current` or `drain`. "
        "Or the command failed, for example without network or disk space; standard "
        "error has the reason."
    ),
    REFUSED: "An argument, file or setting is wrong; standard error has the reason.",
    STOPPED: "Ctrl-C stopped the command.",
    CLOSED: "The reader of a pipe, such as `head`, has closed it.",
}


def parts() -> dict[str, str]:
    """Returns the commands with their options, and the exit codes."""
    codes = "\n".join(f"| {code} | {text} |" for code, text in EXIT_CODES.items())
    return {
        "commands": "\n\n".join(
            _section(name, command) for name, command in commands(parser())
        ),
        "exit codes": f"| code | meaning |\n|---|---|\n{codes}",
    }


def commands(
    root: argparse.ArgumentParser, above: str = ""
) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Yields (name, parser) of each command, and of each action of a command."""
    for action in root._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, command in action.choices.items():
                yield f"{above}{name}", command
                yield from commands(command, f"{above}{name} ")


def _section(name: str, command: argparse.ArgumentParser) -> str:
    """Returns the heading, the description and the arguments of a command."""
    lines = [f"### `dpsgd {name}`", command.description or ""]
    if name in OF_THE_SITE:
        lines.append("Needs the extra `site`: `pip install '.[site]'`.")
    rows = [_row(action) for action in command._actions if _has_row(action)]
    if rows:
        lines.append(TABLE + "\n".join(rows))
    lines += _alternatives(command)
    return "\n\n".join(lines)


def _has_row(action: argparse.Action) -> bool:
    return not isinstance(action, argparse._HelpAction | argparse._SubParsersAction)


def _row(action: argparse.Action) -> str:
    formatter = argparse.HelpFormatter("dpsgd")
    meaning = formatter._expand_help(action).replace("|", r"\|")
    if action.choices is not None and action.option_strings:
        allowed = ", ".join(f"`{choice}`" for choice in action.choices)
        meaning += f"; one of {allowed}"
    required = "yes" if action.required else ""
    return f"| {_written(action)} | {required} | {_marked(meaning)} |"


def _marked(text: str) -> str:
    """Returns a help text whose options and variables are marked as code."""
    return CODE.sub(r"`\g<0>`", text)


def _written(action: argparse.Action) -> str:
    """Returns an argument as users write it, such as ``--steps STEPS``."""
    if action.nargs == 0:
        return f"`{action.option_strings[0]}`"
    if not action.option_strings and action.choices is not None:
        return " or ".join(f"`{choice}`" for choice in action.choices)
    value = action.metavar or (
        action.dest.upper() if action.option_strings else action.dest
    )
    return f"`{' '.join([*action.option_strings[:1], str(value)])}`"


def _alternatives(command: argparse.ArgumentParser) -> list[str]:
    """Returns a sentence for each group of arguments that exclude each other."""
    return [
        f"Give {'exactly' if group.required else 'at most'} one of "
        + ", ".join(f"`{action.option_strings[0]}`" for action in group._group_actions)
        + "."
        for group in command._mutually_exclusive_groups
    ]


if __name__ == "__main__":
    write(PAGE, parts())
