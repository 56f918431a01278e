"""Break each layer rule on purpose, and see its tests turn red.

    python -m tools.break_rules [rule ...]

Every mutation of ``tests/dp/mutations/rules.py`` is planted in the package, one at a
time in a process of its own, and the tests that must see it are run there; they are run
on the sound code, too.  The table goes to the terminal and to
docs/reference/engines.md, in place of the rows of the same rules; the exit status is
1 if a mutation was not seen.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import NamedTuple

from tests.dp.mutations.arena import FAILED, PASSED, results
from tests.dp.mutations.rules import RULES
from tools.marked_text import lines_between, put
from tools.write_engines_page import PAGE


class Outcome(NamedTuple):
    """Outcome of one mutation.

    Attributes:
        rule: The broken rule.
        mutation: Name of the mutation.
        test: The test that must fail.
        red: Whether it failed.
        seconds: CPU time of the mutation's tests.
    """

    rule: str
    mutation: str
    test: str
    red: bool
    seconds: float


def outcomes(rules: Sequence[str]) -> list[Outcome]:
    """Return the outcome of each mutation of some rules, keys of ``RULES``.

    Raises:
        RuntimeError: the tests fail on the sound code, or did not run.
    """
    bugs = [(rule, bug) for rule in rules for bug in RULES[rule]]
    sound, *broken = results([f"{rule}: {bug.name}" for rule, bug in bugs])
    ended = [(sound, (PASSED,)), *((result, (PASSED, FAILED)) for result in broken)]
    for result, codes in ended:
        if result.code not in codes:
            raise RuntimeError(f"the tests ended with {result.code}:\n{result.output}")
    return [
        Outcome(rule, bug.name, bug.tests[0], result.code == FAILED, result.seconds)
        for (rule, bug), result in zip(bugs, broken, strict=True)
    ]


def table(seen: Sequence[Outcome]) -> str:
    """Return the outcomes as a table."""
    lines = ["| rule | broken | tests turn | by | s |", "|---|---|---|---|---|"]
    for rule, mutation, test, red, seconds in seen:
        colour = "red" if red else "**green**"
        name = test.split("::")[-1]
        lines.append(f"| {rule} | {mutation} | {colour} | `{name}` | {seconds:.1f} |")
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """Applies the mutations of the named rules; returns 1 if tests miss one."""
    parser = argparse.ArgumentParser(prog="python -m tools.break_rules")
    parser.add_argument("rules", nargs="*", default=[], choices=[*RULES, []])
    asked = parser.parse_args(arguments).rules
    seen = outcomes(asked or list(RULES))
    print(table(seen))
    merged = _merged(lines_between(PAGE, "mutations"), table(seen).splitlines())
    put(PAGE, "mutations", "\n".join(merged))
    missed = [outcome for outcome in seen if not outcome.red]
    print(f"{len(seen) - len(missed)} of {len(seen)} seen")
    return 1 if missed else 0


def _merged(before: Sequence[str], new: Sequence[str]) -> list[str]:
    """Return the new table with the rows of the other rules, in the rules' order."""
    replaced = {_rule_of(line) for line in new}
    rows = [line for line in before if _rule_of(line) not in replaced]
    order = list(RULES)
    merged = [line for line in [*rows, *new[2:]] if _rule_of(line) in order]
    return [*new[:2], *sorted(merged, key=lambda line: order.index(_rule_of(line)))]


def _rule_of(line: str) -> str:
    return line.split("|")[1].strip() if line.startswith("| ") else ""


if __name__ == "__main__":
    sys.exit(main())
