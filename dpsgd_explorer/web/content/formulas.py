r"""Formulas: LaTeX in the templates, MathML on the page, no script.

latex2mathml converts a tested subset of LaTeX.  This module corrects primes, accents,
function names and limits of sums, which browsers draw badly in that library's output.
Commands outside the subset raise an error, so no untested formula reaches the site.

| macro | meaning |
|---|---|
| ``\norm{x}`` | x between double bars |
| ``\abs{x}`` | x between bars |

Roots and growing brackets are excluded: without a font that has a MATH table (Android),
Chromium omits the root sign and does not enlarge brackets.  Write a power of 1/2, a
slash, or a single fraction.
"""

from __future__ import annotations

import re
from functools import lru_cache
from xml.etree.ElementTree import Element, tostring

from markupsafe import Markup

from dpsgd_explorer.errors import ExplorerError

GREEK = "alpha beta delta varepsilon eta theta lambda mu pi rho sigma Delta Phi nabla"
RELATIONS = "le ge ne lt gt approx sim in leftarrow to mid"
SIGNS = "partial cdot times pm infty sum int frac"
LETTERS = "mathcal mathbb text bar hat tilde prime quad"
FUNCTIONS = ("Pr", "min", "max", "ln", "log", "exp")
COMMANDS = frozenset(
    [*f"{GREEK} {RELATIONS} {SIGNS} {LETTERS}".split(), *FUNCTIONS, ",", "{", "}"]
)
MACROS = {"norm": ("\\left\\lVert ", "\\right\\rVert "), "abs": ("\\left|", "\\right|")}
UPRIGHT = frozenset("ΔΦ")
SIGNS_AS_LETTERS = {"~": "∼", "±": "±"}  # latex2mathml treats them as names
LIMITS = {"∑", "max", "min"}
THIN_SPACE = "0.167em"
PRIME = "′"


class FormulaError(ExplorerError, ValueError):
    """Error for a formula outside the tested subset of LaTeX."""


@lru_cache(maxsize=1024)
def math(tex: str, block: bool = False, alt: str = "") -> Markup:
    """Returns a formula as MathML.

    Args:
        tex: LaTeX of the subset above.
        block: If True, display style: a separate line, limits above and below sums.
        alt: The formula in words, for screen readers without MathML support.

    Raises:
        FormulaError: A command is outside the subset, or braces do not match.
    """
    from latex2mathml.converter import convert_to_element  # its import takes 0.1 s

    _check(tex)
    element = convert_to_element(_expand(tex), display="block" if block else "inline")
    _tidy(element, block)
    element.attrib.pop("xmlns", None)
    if alt:
        element.set("alttext", alt)
    # tostring escapes the text and attributes, so the markup is safe.
    return Markup(tostring(element, encoding="unicode"))


def _check(tex: str) -> None:
    for command in re.findall(r"\\([A-Za-z]+|.)", tex):
        if command not in COMMANDS and command not in MACROS:
            names = ", ".join(sorted([*COMMANDS, *MACROS]))
            raise FormulaError(
                f"\\{command} in {tex!r} is not in the tested subset: {names}."
            )
    if "&" in tex or tex.count("{") != tex.count("}"):
        raise FormulaError(f"{tex!r} has an alignment mark or an unmatched brace.")


def _expand(tex: str) -> str:
    """Returns the LaTeX with all macros expanded, nested ones included."""
    for name, (opening, closing) in MACROS.items():
        start = tex.find(f"\\{name}{{")
        while start >= 0:
            first = start + len(name) + 2
            last = _closing_brace(tex, first)
            inner = tex[first:last]
            tex = f"{tex[:start]}{opening}{inner}{closing}{tex[last + 1 :]}"
            start = tex.find(f"\\{name}{{")
    return tex


def _closing_brace(tex: str, first: int) -> int:
    depth = 1
    for position in range(first, len(tex)):
        depth += {"{": 1, "}": -1}.get(tex[position], 0)
        if depth == 0:
            return position
    raise FormulaError(f"{tex!r} has an unmatched brace.")


def _tidy(element: Element, block: bool) -> None:
    """Corrects the elements that browsers draw badly, from the leaves upward."""
    for child in element:
        _tidy(child, block)
    element.text = _plain(element.text)
    for index, child in enumerate(list(element)):
        element[index] = _corrected(child, block)
    _set_signs(element)
    _set_names_apart(element)


def _plain(text: str | None) -> str | None:
    """Returns the text with the entities of latex2mathml decoded."""
    if text is None:
        return None
    return re.sub(r"&#x([0-9A-F]+);", lambda hit: chr(int(hit[1], 16)), text)


def _corrected(element: Element, block: bool) -> Element:
    """Returns the replacement of an element, or the element itself."""
    element.attrib.pop("movablelimits", None)
    if element.tag in ("mo", "mi"):
        _correct_letter(element)
    elif element.tag == "msup" and element[1].text == PRIME:
        return _primed(element[0])
    elif element.tag == "mover":
        element.set("accent", "true")
        element[1].set("stretchy", "false")
    elif element.tag == "msub" and block and element[0].text in LIMITS:
        element.tag = "munder"
    elif element.tag == "mrow" and len(element) == 1 and not element.attrib:
        return element[0]
    return element


def _correct_letter(letter: Element) -> None:
    """Corrects tag and attributes of a single sign, letter or name."""
    if letter.get("fence"):
        letter.set("stretchy", "false")
    elif letter.text in FUNCTIONS:
        letter.tag = "mi"
    elif letter.tag == "mi" and letter.text in UPRIGHT:
        letter.set("mathvariant", "normal")
    elif letter.text == "/":
        letter.attrib |= {"lspace": "0", "rspace": "0"}
    elif letter.tag == "mi" and letter.text in SIGNS_AS_LETTERS:
        letter.tag, letter.text = "mo", SIGNS_AS_LETTERS[letter.text]


def _primed(base: Element) -> Element:
    """Returns base and prime in a row: the glyph of the prime is raised already."""
    row = Element("mrow")
    prime = Element("mo", {"lspace": "0", "rspace": "0"})
    prime.text = PRIME
    row.extend([base, prime])
    return row


def _set_signs(row: Element) -> None:
    """Marks a minus as a sign at the start of a row or after an opening bracket."""
    before = "("
    for child in row:
        if child.tag == "mo" and child.text == "−" and before in ("(", "[", ","):
            child.set("form", "prefix")
        before = child.text or ""


def _set_names_apart(row: Element) -> None:
    """Puts thin spaces around function names, except before a bracket."""
    if row.tag not in ("mrow", "math"):
        return
    for index in range(len(row) - 1, 0, -1):
        before, after = row[index - 1], row[index]
        if "mo" in (before.tag, after.tag) or "mspace" in (before.tag, after.tag):
            continue
        if _is_name(before) or _is_name(after):
            row.insert(index, Element("mspace", {"width": THIN_SPACE}))


def _is_name(element: Element) -> bool:
    base = element[0] if element.tag in ("munder", "msub") else element
    return base.tag == "mi" and base.text in FUNCTIONS
