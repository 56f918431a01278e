"""The long description: README.md without what only a checkout can show.

Everything else is in pyproject.toml.
"""

import re
from pathlib import Path

from setuptools import setup

#: A picture or link of Markdown to a file of this checkout.
LOCAL = re.compile(r"(!?)\[([^]]*)\]\((?![a-z]+:|#)[^)\s]*\)")


def description(readme: str) -> str:
    """Return the README without local pictures; local links become their text."""
    return LOCAL.sub(lambda match: "" if match[1] else match[2], readme)


setup(
    long_description=description(
        (Path(__file__).parent / "README.md").read_text(encoding="utf-8")
    ),
    long_description_content_type="text/markdown",
)
