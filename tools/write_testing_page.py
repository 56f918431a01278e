"""Write docs/maintainers/testing.md from the reports of the test targets.

python -m tools.write_testing_page [.pytest_cache/unit.xml .pytest_cache/test-all.xml …]
"""

from __future__ import annotations

import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable, Mapping
from pathlib import Path

from tests.families import FOLDERS, LONG, RELEASE

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "maintainers" / "testing.md"
TARGETS = ("unit", "test-all", "test-release")
REPORTS = tuple(ROOT / ".pytest_cache" / f"{name}.xml" for name in TARGETS)
HEAD = """# Tests

This page is for developers who want to know which tests exist and what each family
would catch. `make test` finds common mistakes of a change. `make test-all` runs the
long tests, which are marked `long` with a family of `tests/families.py`; CI runs both.
`make test-release` runs the families that a change seldom breaks. Run it before a
release, and after a change of dependencies, packaging, C code, fonts or benchmarks.

Tests must depend neither on the clock nor on the order of tests. A test of a random
quantity may fail by chance with a probability of at most 1e-6.

*Seconds* is the time of all tests of the family in one process, with fixtures. `make
test` runs one process per core. `make test-all` runs three processes for two cores,
because its tests often wait, and mixes browser tests with the others. If the system has
it, the browser is Chromium's headless shell, because windows need another core.

`python -m tools.write_testing_page` writes this page from the reports of these commands
in `.pytest_cache/`.
"""
SECTION = """
## {title}

| family | what it would catch | tests | seconds |
|---|---|---:|---:|
{rows}
"""

Sums = dict[str, tuple[int, float]]


def page(reports: Iterable[Path]) -> str:
    """Return the page; a family without a report has no figures."""
    sums: Sums = {"tests/js": _scripts()}
    for report in reports:
        for case in ElementTree.parse(report).getroot().iter("testcase"):
            name = _family(case)
            tests, seconds = sums.get(name, (0, 0.0))
            sums[name] = tests + 1, seconds + float(case.get("time", 0))
    folders = {f"tests/{name}": caught for name, caught in FOLDERS.items()}
    return (
        HEAD
        + SECTION.format(title="`make test`", rows=_rows(folders, sums))
        + SECTION.format(title="`make test-all`", rows=_rows(LONG, sums))
        + SECTION.format(title="`make test-release`", rows=_rows(RELEASE, sums))
    )


def _family(case: ElementTree.Element) -> str:
    """Return the family of a long test, or the folder of any other test."""
    for item in case.iter("property"):
        if item.get("name") == "family":
            return item.get("value", "")
    folder = case.get("classname", "").split(".")[1]
    return f"tests/{folder if folder in FOLDERS else ''}"


def _scripts() -> tuple[int, float]:
    """Run the tests of static/js; return their number and duration in seconds."""
    command = ["node", "--test", *map(str, (ROOT / "tests" / "js").glob("*/*.test.js"))]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    figures = dict(
        re.findall(r"^\S (tests|duration_ms) ([\d.]+)$", output, re.MULTILINE)
    )
    return int(figures["tests"]), float(figures["duration_ms"]) / 1000


def _rows(families: Mapping[str, str], sums: Sums) -> str:
    rows = []
    for name, caught in families.items():
        tests, seconds = sums.get(name, (0, 0.0))
        figures = f"{tests} | {seconds:.0f}" if tests else "– | –"
        rows.append(f"| {name} | {caught} | {figures} |")
    return "\n".join(rows)


if __name__ == "__main__":
    given = tuple(map(Path, sys.argv[1:])) or REPORTS
    PAGE.write_text(page(filter(Path.exists, given)), encoding="utf-8")
