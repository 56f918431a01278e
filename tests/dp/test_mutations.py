"""Every known bug, planted in a copy of the package, turns its own tests red."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.dp.mutations.patches import MUTATIONS, PLANTED

ROOT = Path(__file__).resolve().parents[2]
INI = "[pytest]\naddopts = --import-mode=importlib\npythonpath = .\ntimeout = 60\n"
CODE = ("__init__.py", "errors.py", "accounting", "dp")
SOUND = "0 no bug"
ALL_PASSED, SOME_FAILED = 0, 1


def folder_of(name):
    return "".join(c if c.isalnum() else "-" for c in name)


def make_trial(folder, tests, edits=()):
    """Copy the code and its tests, patch the copy, and say what to run."""
    package = folder / "dpsgd_explorer"
    package.mkdir(parents=True)
    for name in CODE:
        source = ROOT / "dpsgd_explorer" / name
        copy = shutil.copytree if source.is_dir() else shutil.copy2
        copy(source, package / name)
    leave_out = shutil.ignore_patterns("__pycache__", "mutations")
    shutil.copytree(ROOT / "tests" / "dp", folder / "tests" / "dp", ignore=leave_out)
    for file, old, new in edits:
        path = package / "dp" / file
        text = path.read_text(encoding="utf-8")
        assert text.count(old) == 1, f"{file} holds {text.count(old)} times: {old}"
        path.write_text(text.replace(old, new), encoding="utf-8")
    (folder / "pytest.ini").write_text(INI)
    paths = [f"tests/dp/{test}" for test in tests]
    (folder / "trial.json").write_text(json.dumps(paths))


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Return {mutation: result} and the sound code's, all run by one process."""
    arena = tmp_path_factory.mktemp("arena")
    tests = {test for mutation in MUTATIONS.values() for test in mutation.tests}
    make_trial(arena / folder_of(SOUND), sorted(tests))
    refused = {}
    for name, mutation in MUTATIONS.items():
        try:
            make_trial(arena / folder_of(name), mutation.tests, mutation.edits)
        except AssertionError as error:
            shutil.rmtree(arena / folder_of(name))
            refused[name] = str(error)
    subprocess.run(
        [sys.executable, "-m", "tests.dp.mutations.arena", str(arena)],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        check=True,
    )
    return arena, refused


def result_of(results, name):
    arena, refused = results
    assert name not in refused, f"the patch has lost its place: {refused[name]}"
    folder = arena / folder_of(name)
    result = json.loads((folder / "result.json").read_text())
    return result, (folder / "output.txt").read_text()


@pytest.mark.timeout(300)
def test_without_a_bug_the_tests_pass(results):
    result, output = result_of(results, SOUND)
    assert result["code"] == ALL_PASSED, output


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", MUTATIONS)
def test_a_bug_turns_its_tests_red(results, name):
    result, output = result_of(results, name)
    assert result["code"] == SOME_FAILED, output
    assert result["seconds"] < 30


def test_all_thirteen_bugs_of_the_audit_are_here():
    assert len(PLANTED) == 13
    assert len(MUTATIONS) == len({m.name for m in MUTATIONS.values()}) > 13
