"""Counts markers of unclear language per 1,000 words of text, by kind of file.

``python -m tools.plain_language`` prints one line for each family of files, then the
hits in each family that is over its budget, and exits with 1 if there is one.  With
names of families it prints all their hits:

    python -m tools.plain_language docs "labels and help"

Synonyms can lower the count.  It finds passages that are worth another reading, but it
does not prove that a text is clear.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dpsgd_explorer.validation import one_of
from tools import prose

ROOT = Path(__file__).parents[1]
SLACK = 1.0  # hits per 1,000 words below the budget, before the report suggests a cut

# A sentence or a clause begins after one of these.
_START = r"(?:\A|[.;:,(|]\s+|\n\s*\n\s*|\n\s*[-*>]\s+)"
_FINITE = (
    "is|was|are|were|has|had|have|does|did|comes?|becomes?|follows?|remains?|stays?|"
    "lies?|a|the|one|it|they|no|must|may|would|asks?|makes?|decides"
)
_UNITS = (
    "milliseconds?|ms|seconds?|steps?|times|MiB|MB|lines?|samples?|numbers?|records?|"
    "runs?|launches|rows?|calls?|layers?|streams?|words?"
)
_PER = (
    "step|layer|visitor|sample|second|page|kernel|part|rank|day|parameter|number|line|"
    "record|batch|run"
)
# name of a habit: its pattern; a space in a pattern also matches a line break
HABITS = {
    "a question word as a noun": (
        rf"{_START}(?:[Ww]hat|[Ww]ho|[Ww]hoever|[Ww]hose|[Ww]hosever) (?:{_FINITE})\b"
        r"(?![^.?!|]*\?)"
    ),
    "a pronoun as a noun": (
        r"\b(?:those of|that of|the same of|such an? one|ones? that|of whom|"
        r"(?:of|in|to|by|from) which)\b"
    ),
    "an old word": (
        r"\b(?:stands?|stood|lies|lay|go(?:es)? on|went on|beside|behind it|anew|apart|"
        r"let go|at hand|dear(?:er)?|mend(?:s|ed)?|whosever|likewise|by itself)\b"
    ),
    "'a' for 'per'": rf"\b(?:{_UNITS}) an? (?:{_PER})\b",
    "an amount without a number": (
        r"\b(?:so many|as many|so much|but for|save for|all that|at once)\b"
    ),
    "'is to be'": r"\b(?:is|are|was|were) to (?:be|take|have)\b",
    "'none' as a noun": r"\b(?:is|are|be) none\b",
    "a program that speaks": (
        r"\b(?:tells?|told|says|said|asks?|asked) "
        r"(?:of|for|so|what|whether|how|it|them|by|the)\b"
    ),
    "'made' for 'computed'": (
        r"\b(?:is|are|was|were|be) made (?:of|by|from|in|when|for|again|on)\b"
    ),
    "a sentence without a subject": (
        r"(?:\A|\n\s*\n\s*|: |\|\s+)Of [a-z]|\b(?:Do nothing|Nothing) yet\b"
    ),
}
_PATTERNS = {
    name: re.compile(habit.replace(" ", r"\s+")) for name, habit in HABITS.items()
}


@dataclass(frozen=True)
class Family:
    """Files with the same readers.

    Attributes:
        budget: Maximum number of hits per 1,000 words; it may only fall.
        files: Pattern of paths from the root; a path belongs to the first family of
            each reader that matches.
        reader: Function that returns the prose of a file's text.
    """

    budget: float
    files: str
    reader: Callable[[str], str]


SCRIPTS = r"(?:static|dpsgd_explorer/web)/.*\.js"
FAMILIES = {
    "readme": Family(1.0, r"README\.md", prose.markdown),
    "changelog": Family(1.0, r"CHANGELOG\.md", prose.markdown),
    "decisions": Family(0.5, r"docs/decisions/.*\.md", prose.markdown),
    "docs": Family(1.5, r".*\.md", prose.markdown),
    "chapters": Family(1.0, r"templates/learn/.*\.html", prose.template),
    "pages": Family(1.0, r"(?:templates|dpsgd_explorer/web)/.*\.html", prose.template),
    "commands": Family(
        1.0, r"(?:dpsgd_explorer/cli/.*|benchmarks/__main__)\.py", prose.literals
    ),
    "labels and help": Family(
        1.0, r"dpsgd_explorer/experiments/.*\.py", prose.literals
    ),
    "answers of the site": Family(
        1.0, r"dpsgd_explorer/(?:web|runs|server|settings)\b.*\.py", prose.literals
    ),
    "messages of the library": Family(1.0, r"dpsgd_explorer/.*\.py", prose.literals),
    "scripts' messages": Family(1.0, SCRIPTS, prose.script_literals),
    "scripts' comments": Family(1.0, SCRIPTS, prose.script_comments),
    "source: accounting": Family(
        1.0, r"dpsgd_explorer/accounting/.*\.py", prose.comments
    ),
    "source: audit": Family(0.5, r"dpsgd_explorer/audit/.*\.py", prose.comments),
    "source: cli": Family(1.0, r"dpsgd_explorer/cli/.*\.py", prose.comments),
    "source: dp": Family(0.5, r"dpsgd_explorer/dp/.*\.py", prose.comments),
    "source: experiments": Family(
        1.5, r"dpsgd_explorer/experiments/.*\.py", prose.comments
    ),
    "source: regression": Family(
        0.5, r"dpsgd_explorer/regression/.*\.py", prose.comments
    ),
    "source: runs": Family(1.0, r"dpsgd_explorer/runs/.*\.py", prose.comments),
    "source: server": Family(1.0, r"dpsgd_explorer/server/.*\.py", prose.comments),
    "source: training": Family(1.0, r"dpsgd_explorer/training/.*\.py", prose.comments),
    "source: web": Family(1.0, r"dpsgd_explorer/web/.*\.py", prose.comments),
    "source: examples": Family(0.5, r"examples/.*\.py", prose.comments),
    "source: tests": Family(16.0, r"tests/.*\.py", prose.comments),
    "source: tests of scripts": Family(0.5, r"tests/.*\.js", prose.script_comments),
    "source: all other": Family(0.5, r".*\.py", prose.comments),
}


@dataclass(frozen=True)
class Hit:
    """One hit of a habit."""

    path: str
    line: int
    habit: str
    words: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.habit}: {self.words}"


@dataclass(frozen=True)
class Count:
    """Number of words and hits of a family."""

    words: int
    hits: tuple[Hit, ...]

    @property
    def rate(self) -> float:
        """Hits per 1,000 words."""
        return 1000 * len(self.hits) / max(self.words, 1)


def texts() -> dict[str, str]:
    """Return {path: text} of the files of the checkout that git does not ignore."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(
        command, cwd=ROOT, check=True, capture_output=True, text=True
    )
    paths = [ROOT / line for line in listed.stdout.splitlines()]
    suffixes = {".md", ".html", ".js", ".py"}
    return {
        path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
        for path in paths
        if path.suffix in suffixes and path.is_file()
    }


def counted(files: Mapping[str, str]) -> dict[str, Count]:
    """Return the count of each family over files, given as {path: text}."""
    words = dict.fromkeys(FAMILIES, 0)
    hits: dict[str, list[Hit]] = {name: [] for name in FAMILIES}
    for path, text in files.items():
        for name, reader in _families_of(path):
            prose_text = reader(text)
            words[name] += len(re.findall(r"\S*\w\S*", prose_text))
            hits[name] += _hits(path, prose_text)
    return {name: Count(words[name], tuple(hits[name])) for name in FAMILIES}


def _families_of(path: str) -> Iterator[tuple[str, Callable[[str], str]]]:
    readers = set()
    for name, family in FAMILIES.items():
        if family.reader not in readers and re.fullmatch(family.files, path):
            readers.add(family.reader)
            yield name, family.reader


def _hits(path: str, text: str) -> Iterator[Hit]:
    for habit, pattern in _PATTERNS.items():
        for match in pattern.finditer(text):
            words = match[0].lstrip(" \n.;:,(|-*>")
            line = text.count("\n", 0, match.end() - len(words)) + 1
            yield Hit(path, line, habit, " ".join(words.split()))


def over_budget(counts: Mapping[str, Count]) -> list[str]:
    """Return the names of the families with more hits than their budget."""
    return [
        name for name, count in counts.items() if count.rate > FAMILIES[name].budget
    ]


def _row(name: str, count: Count) -> str:
    budget = FAMILIES[name].budget
    note = "  lower the budget" if count.rate < budget - SLACK else ""
    return f"{name:26}{count.words:8,} words {count.rate:6.2f} of {budget:4.1f}{note}"


def main(arguments: Sequence[str]) -> int:
    """Print the counts and the places; return 1 if a family is over its budget."""
    names = [one_of("family", name, FAMILIES) for name in arguments]
    counts = counted(texts())
    over = over_budget(counts)
    for name, count in counts.items():
        print(_row(name, count))
    for name in names or over:
        print(f"\n{name}:")
        print(*counts[name].hits, sep="\n")
    if over:
        print(f"\nover budget: {', '.join(over)}. Rewrite; shown are all places.")
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
