"""The long description and the wheel's tag; everything else is in pyproject.toml."""

import re
from pathlib import Path

from setuptools import setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext

#: A picture or link of Markdown to a file of this checkout.
LOCAL = re.compile(r"(!?)\[([^]]*)\]\((?![a-z]+:|#)[^)\s]*\)")


def description(readme: str) -> str:
    """Returns the README without local pictures; local links become their text."""
    return LOCAL.sub(lambda match: "" if match[1] else match[2], readme)


class BuildLibraries(build_ext):
    """Builds C libraries that ctypes loads: they use nothing of Python's API."""

    def get_ext_filename(self, fullname: str) -> str:
        """Returns the path of a library, without a version of Python in it."""
        return f"{fullname.replace('.', '/')}.so"


class BuildWheel(bdist_wheel):
    """Builds a wheel for every Python 3 on this kind of machine."""

    def get_tag(self) -> tuple[str, str, str]:
        """Returns the tags of Python, of its binary interface and of the platform."""
        return "py3", "none", super().get_tag()[2]


setup(
    cmdclass={"bdist_wheel": BuildWheel, "build_ext": BuildLibraries},
    long_description=description(
        (Path(__file__).parent / "README.md").read_text(encoding="utf-8")
    ),
    long_description_content_type="text/markdown",
)
