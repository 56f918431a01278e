"""Exercises of the chapters as notebooks: solved programs with blanks to fill.

``exercise.py`` in a chapter's folder is the solved program. ``# %%`` begins a
cell, ``# %% [markdown]`` a cell of text. The notebook leaves out the right side of the
assignments below a comment “Your turn”. Assertions check the answers.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from dpsgd_explorer import __version__
from dpsgd_explorer.web.hub.chapters.table import Chapter
from dpsgd_explorer.web.run_views.exports.reproduce import INSTALL, notebook_of

FILE = "exercise.py"
MARK = "# Your turn"
BLANK = "..."


def exercise(chapter: Chapter) -> str:
    """Returns the exercise of a chapter as a Jupyter notebook, format 4.5.

    Raises:
        FileNotFoundError: The chapter has no exercise.
    """
    source = (chapter.folder / FILE).read_text(encoding="utf-8")
    head, *rest = with_blanks(source, blanks_of(source)).split("\n# %%")
    title = ast.get_docstring(ast.parse(head)) or ""
    intro = (
        f"# {title}\n\nChapter {chapter.number}, {chapter.title}. Replace each "
        f"`{BLANK}` below a comment “Your turn”. The assertions check your answers.\n\n"
        f"In a checkout of DP-SGD Explorer {__version__}: `{INSTALL}`"
    )
    cells = [("markdown", intro), *map(_parsed, rest)]
    return notebook_of(cells)


def blanks_of(source: str) -> list[ast.Assign]:
    """Returns the assignments to fill, in order.

    A comment "Your turn" covers all assignments up to the next line of another kind.
    """
    assigned = {
        node.lineno: node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Assign)
    }
    blanks: list[ast.Assign] = []
    is_open, end = False, 0
    for number, line in enumerate(source.splitlines(), 1):
        if number <= end:  # within the last blank
            continue
        if line.lstrip().startswith("#"):
            is_open = is_open or MARK in line
        elif is_open and number in assigned:
            blanks.append(assigned[number])
            end = assigned[number].end_lineno or number
        else:
            is_open = False
    return blanks


def with_blanks(source: str, blanks: Sequence[ast.Assign]) -> str:
    """Returns the program with ``...`` as the right side of these assignments."""
    lines = source.splitlines(keepends=True)
    for node in reversed(blanks):  # from the end, so that line numbers stay valid
        left, _, _ = lines[node.lineno - 1].partition(" = ")
        lines[node.lineno - 1 : node.end_lineno] = [f"{left} = {BLANK}\n"]
    return "".join(lines)


def _parsed(text: str) -> tuple[str, str]:
    """Returns the kind and the source of a cell, given the text after ``# %%``."""
    first, _, body = text.partition("\n")
    if "[markdown]" not in first:
        return "code", body.strip("\n")
    words = (line.removeprefix("#").strip() for line in body.strip().splitlines())
    return "markdown", "\n".join(words)
