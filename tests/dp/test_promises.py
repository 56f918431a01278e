"""Every sentence of docs/maintainers/promises.md names a test that there is."""

import ast
import re
from pathlib import Path

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "maintainers" / "promises.md"
ROW = re.compile(r"^\| (.+) \| `([\w./]+\.py)::(\w+)` \|$", re.MULTILINE)


def test_every_sentence_has_a_test():
    text = PAGE.read_text(encoding="utf-8")
    rows = ROW.findall(text)
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    assert len(rows) == len([line for line in lines if line != "| sentence | test |"])
    missing = [(file, name) for _, file, name in rows if name not in functions_of(file)]
    assert missing == []


def functions_of(file):
    tree = ast.parse((HERE / file).read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
