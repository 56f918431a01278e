"""The wheel holds what the library and the site need, and asks for no more."""

import re
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
FOR_THE_SITE = {"flask", "plotly", "sqlalchemy", "huey", "gunicorn"}


def names(requirements):
    return {re.match(r"[\w-]+", line).group() for line in requirements}


@pytest.fixture(scope="module")
def wheel(wheel_file):
    return set(zipfile.ZipFile(wheel_file).namelist())


def test_the_wheel_holds_every_module_template_script_and_data_file(wheel):
    missing = set()
    for folder, inside in {
        "dpsgd_explorer": "dpsgd_explorer",
        "templates": "dpsgd_explorer/web/templates",
        "static": "dpsgd_explorer/web/static",
    }.items():
        for path in (ROOT / folder).rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                name = f"{inside}/{path.relative_to(ROOT / folder).as_posix()}"
                missing |= {name} - wheel
    assert missing == set()


def test_tests_and_tools_stay_at_home(wheel):
    assert {name.split("/")[0] for name in wheel if "dist-info" not in name} == {
        "dpsgd_explorer"
    }


def test_the_library_asks_for_nothing_of_the_site():
    library = names(PROJECT["project"]["dependencies"])
    site = names(PROJECT["project"]["optional-dependencies"]["site"])
    assert not library & FOR_THE_SITE
    assert site >= FOR_THE_SITE


def is_requirement(line):
    return re.match(r"\w", line) is not None


def requirements():
    extras = PROJECT["project"]["optional-dependencies"]
    return [*PROJECT["project"]["dependencies"], *extras["site"], *extras["fleet"]]


@pytest.mark.parametrize("line", requirements())
def test_every_requirement_has_both_bounds_and_admits_the_tested_version(line):
    requirement = Requirement(line)
    operators = {bound.operator for bound in requirement.specifier}
    assert operators == {">=", "<"}
    lines = (ROOT / "requirements.txt").read_text(encoding="utf-8").splitlines()
    pins = {pin.name: pin for pin in map(Requirement, filter(is_requirement, lines))}
    [pinned] = pins[requirement.name].specifier
    assert requirement.specifier.contains(pinned.version)


def test_what_the_wheel_asks_for_is_what_is_tested():
    lines = (ROOT / "requirements.txt").read_text(encoding="utf-8").splitlines()
    pinned = names(line for line in lines if "==" in line)
    assert names(requirements()) == pinned
