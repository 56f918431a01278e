"""The library's public calls change on purpose only, and the documentation has all."""

import re
from pathlib import Path

from tools import write_public_interface

ROOT = Path(__file__).parents[1]
PAGES = sorted((ROOT / "docs" / "reference" / "api").glob("*.md"))
DIRECTIVE = re.compile(r"^\.\. (?:auto(?:class|function|data)|py:data):: (\S+)", re.M)


def test_public_calls_are_the_recorded_ones():
    recorded = write_public_interface.FILE.read_text(encoding="utf-8")
    assert write_public_interface.interface() == recorded, (
        "a public call has changed; if that is intended, name it in the changelog and "
        "run python -m tools.write_public_interface"
    )


def test_each_public_name_is_documented_once():
    documented = [
        name
        for page in PAGES
        for name in DIRECTIVE.findall(page.read_text(encoding="utf-8"))
    ]
    assert sorted(documented) == list(write_public_interface.public_names())
