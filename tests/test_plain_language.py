"""The count of unclear habits: what is read of each kind of file, and the budgets."""

from dataclasses import replace

import pytest

from tools import plain_language
from tools.plain_language import FAMILIES, counted, over_budget

PLANTED = (
    "What is stored lies beside it. Who has the key is told of the runs, and of which "
    "one that is to be kept goes on anew, so many steps a second as it is made of."
)
PROSE = {
    "docs/page.md": f"# A page\n\n{PLANTED}\n",
    "docs/table.md": f"# A page\n\n| {PLANTED} |\n",
    "templates/runs/page.html": f"<p>A page</p>\n\n<td><b>{PLANTED}</b></td>\n",
    "templates/runs/alt.html": f'<p>A page</p>\n\n<img alt="{PLANTED}">\n',
    "templates/runs/call.html": f'<p>A page</p>\n\n{{{{ field("{PLANTED}") }}}}\n',
    "dpsgd_explorer/dp/a.py": f'import os\n\n"""{PLANTED}"""\n',
    "dpsgd_explorer/dp/b.py": f"import os\n\nx = 1  # {PLANTED}\n",
    "dpsgd_explorer/experiments/a.py": f'import os\n\nx = label(\n"{PLANTED}")\n',
    "dpsgd_explorer/experiments/b.py": f"x = 'a'\n\ny = f'''{{x}}: {PLANTED}'''\n",
    "examples/a.py": f'import os\n\n"""{PLANTED}"""\n',
    "benchmarks/__main__.py": f'import os\n\nx = help("{PLANTED}")\n',
    "static/js/a.js": f"x();\n\n/** {PLANTED} */\n",
    "static/js/b.js": f"x(/'/);\n\nshow(`{PLANTED}`);\n",
}
NOT_PROSE = {
    "docs/page.md": f"A page\n```\n{PLANTED}\n```\n`{PLANTED}` <!-- {PLANTED} -->\n",
    "templates/page.html": f"<pre>{PLANTED}</pre>{{# {PLANTED} #}}<p id='{PLANTED}'>",
    "dpsgd_explorer/dp/a.py": "is_to = what(goes, on=[anew, 'lies', \"beside\"])\n",
    "dpsgd_explorer/dp/b.py": f'"""A module.\n\n>>> f("{PLANTED}")\n"""\n',
    "static/js/a.js": "const lies = beside(anew) / /what the lies/ / stands;\n",
}


@pytest.mark.parametrize("path", PROSE)
def test_a_planted_passage_is_counted_in_its_line_and_exceeds_the_budget(path):
    counts = counted({path: PROSE[path]})
    (family,) = over_budget(counts)
    assert {hit.habit for hit in counts[family].hits} >= {
        "a question word as a noun",
        "a pronoun as a noun",
        "an old word",
        "'a' for 'per'",
        "'is to be'",
    }
    assert {hit.line for hit in counts[family].hits} <= {3, 4}


@pytest.mark.parametrize("path", NOT_PROSE)
def test_code_is_not_prose(path):
    assert not any(count.hits for count in counted({path: NOT_PROSE[path]}).values())


def test_a_passage_is_found_across_line_breaks_and_parts_of_a_literal():
    parts = ("the layers beside those ", "of the model, in ", "which one adds")
    source = "help = (\n" + "".join(f"    {part!r}\n" for part in parts) + ")\n"
    (count,) = (
        count
        for count in counted({"dpsgd_explorer/cli/a.py": source}).values()
        if count.hits
    )
    assert [(hit.line, hit.words) for hit in count.hits] == [
        (2, "those of"),
        (3, "in which"),
        (2, "beside"),
    ]


def test_no_family_exceeds_its_budget_and_every_family_has_files():
    counts = counted(plain_language.texts())
    assert over_budget(counts) == []
    assert all(count.words > 100 for count in counts.values())


def test_a_budget_that_is_too_high_is_named(capsys, monkeypatch):
    high = replace(FAMILIES["readme"], budget=2.5)
    monkeypatch.setitem(FAMILIES, "readme", high)
    monkeypatch.setattr(plain_language, "texts", lambda: {"README.md": "A page.\n"})
    assert plain_language.main([]) == 0
    row, *_ = capsys.readouterr().out.splitlines()
    assert row.startswith("readme")
    assert row.endswith("lower the budget")


def test_the_command_fails_and_names_file_line_and_words(capsys, monkeypatch):
    monkeypatch.setattr(plain_language, "texts", lambda: {"README.md": PLANTED})
    assert plain_language.main([]) == 1
    assert "README.md:1: an old word: beside" in capsys.readouterr().out
