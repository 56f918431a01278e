"""Formulas: each one of the site against a reviewed golden form, and the rules."""

import ast
import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from dpsgd_explorer.web.content.formulas import FormulaError, math

ROOT = Path(__file__).parents[3]
GOLDEN = ROOT / "tests" / "golden" / "formulas.json"
CALL = re.compile(r'formula\(("(?:[^"\\]|\\.)*"), ("(?:[^"\\]|\\.)*")\)')
# The elements of MathML Core that the subset needs; browsers draw no others alike.
CORE = {"math", "mrow", "mi", "mn", "mo", "mspace", "mfrac", "msub", "msup"}
CORE |= {"munder", "mover", "munderover"}


def formulas():
    """Return LaTeX and words of every formula in the templates."""
    found = {}
    folders = (ROOT / "templates", ROOT / "dpsgd_explorer" / "web")
    templates = (file for folder in folders for file in folder.rglob("*.html"))
    for template in sorted(templates):
        for tex, words in CALL.findall(template.read_text(encoding="utf-8")):
            found[ast.literal_eval(tex)] = ast.literal_eval(words)
    return found


FORMULAS = formulas()


def drawn(tex, block=True):
    return ElementTree.fromstring(math(tex, block=block, alt="words"))


def test_the_golden_file_holds_the_formulas_of_the_site_and_no_others():
    golden = json.loads(GOLDEN.read_text(encoding="utf-8"))
    assert set(golden) == set(FORMULAS), (
        "run tests/web/content/test_formulas.py as a script"
    )
    assert len(FORMULAS) > 10


@pytest.mark.parametrize("tex", FORMULAS)
def test_a_formula_is_what_was_looked_at(tex):
    golden = json.loads(GOLDEN.read_text(encoding="utf-8"))
    assert str(math(tex, block=True, alt=FORMULAS[tex])) == golden[tex]


@pytest.mark.parametrize("tex", FORMULAS)
def test_a_formula_leaves_no_latex_behind(tex):
    tree = ElementTree.fromstring(math(tex, block=True, alt=FORMULAS[tex]))
    text = "".join(tree.itertext())
    assert not re.search(r"[&\\{}#]|operatorname|text", text), text
    assert {element.tag for element in tree.iter()} <= CORE
    assert tree.get("alttext") == FORMULAS[tex]
    assert len(FORMULAS[tex].split()) >= 5


@pytest.mark.parametrize("tex", FORMULAS)
def test_no_formula_needs_a_sign_that_grows(tex):
    tree = drawn(tex)
    growing = [e.text for e in tree.iter("mo") if e.get("stretchy") == "true"]
    assert growing == []


def test_a_sum_carries_its_limit_below_in_a_block_and_beside_in_a_line():
    assert drawn(r"\sum_{i \in B} x").find(".//munder") is not None
    assert drawn(r"\sum_{i \in B} x", block=False).find(".//msub") is not None


def test_a_prime_stands_beside_its_letter():
    row = drawn("D'").find("mrow")
    assert [(e.tag, e.text) for e in row] == [("mi", "D"), ("mo", "′")]


def test_a_tilde_is_an_accent_over_a_letter_and_a_relation_between_two():
    accent, relation = (
        drawn(r"\tilde{s}").find(".//mo"),
        drawn(r"z \sim p").find(".//mo"),
    )
    assert (accent.text, relation.text) == ("~", "∼")


def test_a_function_s_name_is_upright_and_set_apart():
    row = drawn(r"\ln \delta").find("mrow")
    assert [e.tag for e in row] == ["mi", "mspace", "mi"]
    assert [e.tag for e in drawn(r"\min(1, x)").find("mrow")][:2] == ["mi", "mo"]


def test_a_minus_that_opens_is_a_sign():
    signs = [e.get("form") for e in drawn("-x(-y) - z").iter("mo") if e.text == "−"]
    assert signs == ["prefix", "prefix", None]


def test_a_norm_stands_between_bars():
    bars = [
        e.get("form") for e in drawn(r"\norm{\norm{x} + y}").iter("mo") if e.text == "‖"
    ]
    assert sorted(bars) == ["postfix", "postfix", "prefix", "prefix"]


@pytest.mark.parametrize(
    "tex",
    [r"\operatorname{sign} x", r"\sqrt{x}", r"a &= b", r"\left( x \right)", r"\norm{x"],
    ids=["unknown", "root", "alignment", "growing", "unmatched"],
)
def test_what_is_outside_the_subset_is_refused(tex):
    with pytest.raises(FormulaError, match=re.escape(repr(tex)[1:8])):
        math(tex)


def test_text_in_a_formula_is_escaped():
    assert "&lt;" in math("a < b")
    assert "<b" not in math("a < b").replace("<mi>b", "")


if __name__ == "__main__":
    made = {
        tex: str(math(tex, block=True, alt=words)) for tex, words in FORMULAS.items()
    }
    GOLDEN.write_text(json.dumps(made, indent=1, ensure_ascii=False) + "\n", "utf-8")
