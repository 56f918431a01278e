"""Break each layer rule on purpose, and see its tests turn red.

    python -m tools.break_rules [rule ...]

Every mutation of ``tests/dp/mutations/rules.py`` is planted in a copy of the package,
one at a time, and the tests that ought to see it are run on the copy, as they are on
the sound code.  The table goes to the terminal and to docs/engines.md, in place of the
rows of the same rules; the exit status is 1 if a mutation was not seen.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tests.dp.mutations.rules import RULES
from tests.dp.test_mutations import folder_of, make_trial
from tools.write_engines_page import put, taken

ROOT = Path(__file__).parents[1]
SOUND = "0 no bug"
PASSED, FAILED = 0, 1
#: Examples are the same each time, and a failing one is not made smaller.
CONFTEST = """\
from hypothesis import Phase, settings

PHASES = [Phase.explicit, Phase.generate]

settings.register_profile("mutant", phases=PHASES, derandomize=True)
settings.load_profile("mutant")
"""


class Outcome(NamedTuple):
    """What became of one mutation.

    Attributes:
        rule: Which rule was broken.
        mutation: How.
        test: The test that must see it.
        red: Whether it did.
        seconds: How long that took.
    """

    rule: str
    mutation: str
    test: str
    red: bool
    seconds: float


def outcomes(rules: Sequence[str], most: int | None = None) -> list[Outcome]:
    """Return what became of each mutation of some rules.

    Args:
        rules: Keys of ``RULES``.
        most: Mutations of each to try; all by default.

    Raises:
        RuntimeError: the tests fail on the sound code, or did not run.
    """
    asked = [(r, m) for r in rules for m in list(RULES[r].values())[:most]]
    with tempfile.TemporaryDirectory() as folder:
        arena = Path(folder)
        tests = sorted({test for _, mutation in asked for test in mutation.tests})
        _plant(arena / folder_of(SOUND), tests)
        for i, (_, mutation) in enumerate(asked):
            _plant(arena / f"{i + 1:03}", mutation.tests, mutation.edits)
        _run(arena)
        _result(arena / folder_of(SOUND), PASSED)
        results = [_result(arena / f"{i + 1:03}") for i in range(len(asked))]
    return [
        Outcome(rule, m.name, m.tests[0], code == FAILED, seconds)
        for (rule, m), (code, seconds) in zip(asked, results, strict=True)
    ]


def table(found: Sequence[Outcome]) -> str:
    """Return the outcomes as a table."""
    lines = ["| rule | broken | tests turn | by | s |", "|---|---|---|---|---|"]
    for rule, mutation, test, red, seconds in found:
        colour = "red" if red else "**green**"
        name = test.split("::")[-1].replace("_", " ")
        lines.append(f"| {rule} | {mutation} | {colour} | {name} | {seconds:.1f} |")
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """Break what is asked for; return 1 if a mutation was not seen."""
    parser = argparse.ArgumentParser(prog="python -m tools.break_rules")
    parser.add_argument("rules", nargs="*", default=[], choices=[*RULES, []])
    asked = parser.parse_args(arguments).rules
    found = outcomes(asked or list(RULES))
    print(table(found))
    put("mutations", "\n".join(_merged(taken("mutations"), table(found).splitlines())))
    missed = [each for each in found if not each.red]
    print(f"{len(found) - len(missed)} of {len(found)} seen")
    return 1 if missed else 0


def _merged(before: Sequence[str], new: Sequence[str]) -> list[str]:
    """Return the new table with the rows of the other rules, in the rules' order."""
    replaced = {_rule_of(line) for line in new}
    rows = [line for line in before if _rule_of(line) not in replaced]
    order = list(RULES)
    kept = [line for line in [*rows, *new[2:]] if _rule_of(line) in order]
    return [*new[:2], *sorted(kept, key=lambda line: order.index(_rule_of(line)))]


def _rule_of(line: str) -> str:
    return line.split("|")[1].strip() if line.startswith("| ") else ""


def _plant(
    folder: Path,
    tests: Sequence[str],
    edits: Sequence[tuple[str, str, str]] = (),
) -> None:
    make_trial(folder, tests, edits)
    (folder / "conftest.py").write_text(CONFTEST, encoding="utf-8")


def _run(arena: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "tests.dp.mutations.arena", str(arena)],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        check=True,
    )


def _result(trial: Path, wanted: int | None = None) -> tuple[int, float]:
    """Return pytest's exit status and the seconds of a trial."""
    output = (trial / "output.txt").read_text(encoding="utf-8")
    result = json.loads((trial / "result.json").read_text(encoding="utf-8"))
    code = int(result["code"])
    if code not in (PASSED, FAILED) or (wanted is not None and code != wanted):
        raise RuntimeError(f"the tests of {trial.name} gave {code}:\n{output}")
    return code, float(result["seconds"])


if __name__ == "__main__":
    sys.exit(main())
