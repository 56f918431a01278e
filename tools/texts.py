"""Write all texts that people read into one file for translators.

``python -m tools.texts messages.pot`` writes it; see docs/maintainers/translating.md.
"""

from __future__ import annotations

import argparse
import ast
import functools
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any

from jinja2 import Environment, nodes

from dpsgd_explorer.web.texts.catalogue import one_line
from dpsgd_explorer.web.texts.scripts import change_script
from dpsgd_explorer.web.texts.segments import Template, change_html, has_words

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "dpsgd_explorer"
#: Parts of the package whose texts no page shows.
NOT_SHOWN = {"cli", "server", "compat", "integrations", "dp"}
_IS_SHOWN = re.compile(r"[^\W\d_]\S* +\S*[^\W\d_]|^[A-Z][a-zé]+[?!.:]?$")
_IS_WORD = re.compile(r"[^\W\d_][^\W_]+")
#: Names of arguments and fields that are shown even if they are one word.
SHOWN = {"label", "title", "noun", "help", "unit", "name", "words", "heading", "head"}

Texts = Iterator[tuple[int, str]]


def of_template(environment: Environment, source: str) -> Texts:
    """Yield (line, text) of a template: its segments, and texts in its code."""
    segments: list[str] = []
    Template(environment, source).change_segments(
        lambda segment: segments.append(segment) or segment  # type: ignore[func-returns-value]
    )
    position = 0
    for segment in segments:
        position = max(position, source.find(segment, position))
        yield source.count("\n", 0, position) + 1, segment
    yield from _of_code(environment.parse(source))


def _of_code(node: nodes.Node) -> Texts:
    if isinstance(node, nodes.Concat):
        yield node.lineno, _joined(node.nodes)
    is_list = isinstance(node, nodes.List | nodes.Tuple | nodes.CondExpr | nodes.Pair)
    for child in node.iter_child_nodes():
        if not isinstance(child, nodes.Const):
            yield from _of_code(child)
        elif isinstance(child.value, str) and (
            is_list or _IS_SHOWN.search(child.value)
        ):
            yield child.lineno, child.value


def of_python(source: str) -> Texts:
    """Yield (line, text) of the strings of a module that may be shown."""
    waiting: list[ast.AST] = [ast.parse(source)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.JoinedStr):
            yield from _of_markup(node.lineno, _joined(node.values))
            waiting += [
                part for part in node.values if not isinstance(part, ast.Constant)
            ]
            continue
        is_list = isinstance(node, ast.List | ast.Tuple | ast.Dict | ast.IfExp)
        is_named = isinstance(node, ast.keyword) and node.arg in SHOWN
        for child in ast.iter_child_nodes(node):
            if not isinstance(child, ast.Constant):
                waiting.append(child)
            elif isinstance(child.value, str) and not isinstance(node, ast.Expr):
                is_word = (is_list or is_named) and _IS_WORD.fullmatch(child.value)
                if is_word or _IS_SHOWN.search(child.value):
                    yield from _of_markup(child.lineno, child.value)


def _of_markup(line: int, text: str) -> Texts:
    """Yield a text; of HTML that begins with a tag, its texts."""
    if text.startswith("<"):
        texts: list[str] = []
        change_html(text, lambda part: texts.append(part) or part)  # type: ignore[func-returns-value]
        yield from ((line, part) for part in texts)
    else:
        yield line, text


def of_script(source: str) -> Texts:
    """Yield (line, text) of a script, without lists of classes of elements."""
    found: list[str] = []
    change_script(source, lambda text: found.append(text) or text)  # type: ignore[func-returns-value]
    for text in found:
        words = re.sub(r"[\w-]*\$\{.*?\}", "", text).split()
        if not _classes().issuperset(words):
            yield source.count("\n", 0, source.find(text)) + 1, text


@functools.cache
def _classes() -> set[str]:
    """Return the classes and elements that style sheets name."""
    sheets = [*ROOT.glob("static/**/*.css"), *PACKAGE.rglob("*.css")]
    text = "".join(sheet.read_text(encoding="utf-8") for sheet in sheets)
    return set(re.findall(r"\.([a-z][\w-]*)", text))


def _joined(parts: Iterable[Any]) -> str:
    """Return parts as one text, with a named placeholder for each computed part."""
    text, names = "", []
    for part in parts:
        if isinstance(part, ast.Constant | nodes.Const):
            text += str(part.value)
        else:
            name = _name_of(getattr(part, "value", part))
            names.append(name)
            number = names.count(name)
            text += f"{{{name}{number if number > 1 else ''}}}"
    return text


def _name_of(expression: Any) -> str:
    """Return a name for the value of an expression: its last name."""
    for field in ("attr", "id", "name", "func", "node", "value", "left"):
        found = getattr(expression, field, None)
        if isinstance(found, str):
            return found
        if isinstance(found, ast.AST | nodes.Node):
            return _name_of(found)
    return "value"


def all_texts() -> dict[str, list[str]]:
    """Return {text: its positions in the source}, in the order of the files."""
    environment = Environment(trim_blocks=True, lstrip_blocks=True)
    found: dict[str, list[str]] = {}
    readers: dict[str, Callable[[str], Texts]] = {
        ".html": functools.partial(of_template, environment),
        ".py": of_python,
        ".js": of_script,
    }
    folders = (PACKAGE, ROOT / "static", ROOT / "templates")
    for file in sorted(file for folder in folders for file in folder.rglob("*.*")):
        path = file.relative_to(ROOT)
        if file.suffix not in readers or NOT_SHOWN.intersection(path.parts):
            continue
        for line, text in readers[file.suffix](file.read_text(encoding="utf-8")):
            is_code = file.suffix == ".py" and "{{" in text
            if has_words(re.sub(r"\{[^{}]*\}", "", text)) and not is_code:
                found.setdefault(one_line(text), []).append(f"{path}:{line}")
    for status in HTTPStatus:  # titles of error pages
        if status >= HTTPStatus.BAD_REQUEST:
            found.setdefault(status.phrase, []).append("http.HTTPStatus")
    return found


def pot(texts: Mapping[str, Iterable[str]]) -> str:
    """Return a PO template: all texts, without translations."""
    head = 'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n'
    entries = [
        f"#: {' '.join(positions)}\nmsgid {json.dumps(text, ensure_ascii=False)}\n"
        'msgstr ""\n'
        for text, positions in texts.items()
    ]
    return "\n".join([head, *entries])


def main() -> None:
    """Write the file that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path)
    texts = all_texts()
    file = parser.parse_args().file
    file.write_text(pot(texts), encoding="utf-8")
    print(f"{file}: {len(texts)} texts")


if __name__ == "__main__":
    main()
