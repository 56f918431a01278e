"""Break each layer rule on purpose, and check that its tests fail.

    python -m tools.break_rules [rule ...]

Applies every mutation of ``tests/dp/mutations/rules.py``, each in a new process, and
runs the tests that must detect it; the tests also run on the correct code.  Prints the
table and writes it to docs/reference/engines.md, in place of the rows of the same
rules.  The exit status is 1 if a mutation was not detected.
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
        red: If True, the test failed.
        seconds: CPU time of the mutation's tests.
    """

    rule: str
    mutation: str
    test: str
    red: bool
    seconds: float


def outcomes(rules: Sequence[str]) -> list[Outcome]:
    """Return the outcome of each mutation of the given rules, keys of ``RULES``.

    Raises:
        RuntimeError: the tests fail on the correct code, or did not run.
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


def table(mutation_outcomes: Sequence[Outcome]) -> str:
    """Return the outcomes as a Markdown table."""
    lines = ["| rule | broken | tests turn | by | s |", "|---|---|---|---|---|"]
    for rule, mutation, test, red, seconds in mutation_outcomes:
        colour = "red" if red else "**green**"
        name = test.split("::")[-1]
        lines.append(f"| {rule} | {mutation} | {colour} | `{name}` | {seconds:.1f} |")
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """Applies the mutations of the named rules; returns 1 if tests miss one."""
    parser = argparse.ArgumentParser(prog="python -m tools.break_rules")
    parser.add_argument("rules", nargs="*", default=[], choices=[*RULES, []])
    parsed = parser.parse_args(arguments).rules
    mutation_outcomes = outcomes(parsed or list(RULES))
    print(table(mutation_outcomes))
    merged = _merged(
        lines_between(PAGE, "mutations"), table(mutation_outcomes).splitlines()
    )
    put(PAGE, "mutations", "\n".join(merged))
    missed = [outcome for outcome in mutation_outcomes if not outcome.red]
    print(f"{len(mutation_outcomes) - len(missed)} of {len(mutation_outcomes)} seen")
    return 1 if missed else 0


def _merged(old_rows: Sequence[str], new_rows: Sequence[str]) -> list[str]:
    """Return the old rows with new ones in their place, in the order of the rules."""
    replaced = {_rule_of(line) for line in new_rows}
    rows = [line for line in old_rows if _rule_of(line) not in replaced]
    order = list(RULES)
    merged = [line for line in [*rows, *new_rows[2:]] if _rule_of(line) in order]
    return [
        *new_rows[:2],
        *sorted(merged, key=lambda line: order.index(_rule_of(line))),
    ]


def _rule_of(line: str) -> str:
    return line.split("|")[1].strip() if line.startswith("| ") else ""


if __name__ == "__main__":
    sys.exit(main())
