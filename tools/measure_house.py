"""Measure the house at some revisions, for docs/decisions/0006-rooms.md.

python -m tools.measure_house 507ef23 HEAD
"""

from __future__ import annotations

import ast
import io
import statistics
import subprocess
import sys
import tarfile
import tokenize
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from tools.marked_text import put

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "decisions" / "0006-rooms.md"
PACKAGE = "dpsgd_explorer"
LAYOUT = {
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


class Module(NamedTuple):
    """One file of Python.

    Attributes:
        path: From the root of the tree.
        tree: The parsed source.
        code_lines: Number of lines without comments, docstrings and empty lines.
        comments: Number of comments.
    """

    path: PurePosixPath
    tree: ast.Module
    code_lines: int
    comments: int

    @classmethod
    def parsed(cls, path: str, source: str) -> Module:
        """Parse the source of a file."""
        tree = ast.parse(source)
        code: set[int] = set()
        comments = 0
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type == tokenize.COMMENT:
                comments += 1
            elif token.type not in LAYOUT:
                code.update(range(token.start[0], token.end[0] + 1))
        code -= set(_docstring_lines(tree))
        return cls(PurePosixPath(path), tree, len(code), comments)


def at_revision(revision: str) -> list[Module]:
    """Return the package and the tests of a git revision."""
    command = ["git", "archive", revision, PACKAGE, "tests"]
    archive = subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout
    modules = []
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        for member in files:
            content = files.extractfile(member)
            if content is not None and member.name.endswith(".py"):
                modules.append(Module.parsed(member.name, content.read().decode()))
    return modules


def measures(modules: list[Module]) -> dict[str, str]:
    """Return {measure: value} of the modules of a tree."""
    package = [module for module in modules if module.path.parts[0] == PACKAGE]
    tests = [module for module in modules if module.path.parts[0] == "tests"]
    folders = Counter(module.path.parent for module in package)
    folder, files = folders.most_common(1)[0]
    code = sum(module.code_lines for module in package)
    comments = sum(module.comments for module in package)
    lengths = [len(name) for module in package for name in _defined(module.tree)]
    return {
        "files in the largest folder": f"{files} (`{folder.name}`)",
        **{
            f"imports between files of `{name}`": f"{_sibling_imports(package, name)}"
            for name in ("accounting", "dp")
        },
        "mean length of the names defined": f"{statistics.mean(lengths):.1f}",
        "comments per 100 lines of code": f"{100 * comments / code:.1f}",
        "lines of code, package": f"{code:,}",
        "lines of code, tests": f"{sum(module.code_lines for module in tests):,}",
    }


def table(columns: Mapping[str, Mapping[str, str]]) -> str:
    """Return {revision: measures} as a table, a column per revision."""
    names = next(iter(columns.values()))
    lines = [
        f"| measure | {' | '.join(columns)} |",
        "|---" + "|---:" * len(columns) + "|",
    ]
    for name in names:
        cells = [values[name] for values in columns.values()]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _docstring_lines(tree: ast.Module) -> Iterator[int]:
    for node in ast.walk(tree):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False):
            statement = node.body[0]
            yield from range(statement.lineno, (statement.end_lineno or 0) + 1)


def _defined(tree: ast.Module) -> Iterator[str]:
    """Yield the name of each function, class, argument, variable and attribute set."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()):
                yield name
            case ast.Attribute(attr=name, ctx=ast.Store()):
                yield name


def _sibling_imports(package: list[Module], folder: str) -> int:
    """Return the number of pairs of files of one folder, one importing the other."""
    prefix = f"{PACKAGE}.{folder}"
    inside = [
        module
        for module in package
        if module.path.parent == PurePosixPath(PACKAGE, folder)
    ]
    names = {f"{prefix}.{module.path.stem}" for module in inside}
    return sum(len(names & set(_imported(module.tree))) for module in inside)


def _imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def main() -> None:
    """Measure the revisions, print the table and write it."""
    text = table({name: measures(at_revision(name)) for name in sys.argv[1:]})
    print(text)
    put(PAGE, "measures", text)


if __name__ == "__main__":
    main()
