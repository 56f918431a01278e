"""Exercises: solved they run, and no blank can be left without an error."""

import ast

import pytest

from dpsgd_explorer.web.hub.chapters.table import CHAPTERS
from dpsgd_explorer.web.teach.exercises import (
    FILE,
    blanks_of,
    exercise,
    with_blanks,
)

SLUGS = list(CHAPTERS)


def solved(slug):
    return (CHAPTERS[slug].folder / FILE).read_text(encoding="utf-8")


def run(source):
    exec(compile(source, "exercise", "exec"), {"__name__": "exercise"})


@pytest.mark.parametrize("slug", SLUGS)
def test_the_solution_passes_its_assertions(slug, capsys):
    run(solved(slug))
    assert capsys.readouterr().out


@pytest.mark.parametrize("slug", SLUGS)
def test_no_blank_can_be_left(slug):
    solution = solved(slug)
    blanks = blanks_of(solution)
    assert len(blanks) >= 3
    for blank in blanks:
        with pytest.raises((AssertionError, TypeError, AttributeError, ValueError)):
            run(with_blanks(solution, [blank]))


@pytest.mark.parametrize("slug", SLUGS)
def test_the_notebook_has_the_cells_of_the_program(slug, client):
    answer = client.get(f"/teach/{slug}/exercise.ipynb")
    assert answer.mimetype == "application/x-ipynb+json"
    cells = [(c["cell_type"], "".join(c["source"])) for c in answer.json["cells"]]
    code = "\n".join(source for kind, source in cells if kind == "code")
    blank = with_blanks(solved(slug), blanks_of(solved(slug)))
    body = ast.parse(blank).body[1:]  # without the title, which is text
    assert ast.dump(ast.parse(code)) == ast.dump(ast.Module(body, []))
    texts = [source for kind, source in cells[1:] if kind == "markdown"]
    assert texts
    assert not any(text.startswith("#") for text in texts)


def test_a_blank_spans_the_lines_of_its_expression():
    source = "# Your turn: a sum.\nx = (\n    1\n    + 2\n)\ny = 3\n\nz = 4\n"
    blank = with_blanks(source, blanks_of(source))
    assert blank == "# Your turn: a sum.\nx = ...\ny = ...\n\nz = 4\n"


def test_an_unknown_chapter_has_no_exercise(client):
    assert client.get("/teach/nope/exercise.ipynb").status_code == 404
    assert exercise(CHAPTERS["intro"]).startswith("{")
