"""A module can be imported by its name: no export of a package hides it."""

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = sorted(
    ".".join(path.parent.relative_to(ROOT).parts)
    for path in (ROOT / "dpsgd_explorer").rglob("__init__.py")
)


@pytest.mark.parametrize("package", PACKAGES)
def test_no_export_hides_a_module(package):
    folder = ROOT.joinpath(*package.split("."))
    modules = {path.stem for path in folder.glob("*.py")} - {"__init__"}
    modules |= {path.parent.name for path in folder.glob("*/__init__.py")}
    found = vars(importlib.import_module(package))
    hidden = [n for n in modules & set(found) if not hasattr(found[n], "__spec__")]
    assert hidden == []


def test_a_users_types_are_checked(tmp_path):
    """The package says that it is typed, so mypy reads its annotations."""
    script = tmp_path / "script.py"
    script.write_text(
        "from torch import nn\n"
        "from dpsgd_explorer.dp import PrivacyEngine\n"
        "engine = PrivacyEngine(nn.Linear(1, 1), plan=None, clipping_fn='abadi')\n"
        "reveal_type(engine.get_epsilon())\n",
        encoding="utf-8",
    )
    # Annotations of other libraries take most of the time, and are not in question.
    settings = tmp_path / "mypy.ini"
    settings.write_text(
        "[mypy]\n[mypy-torch.*,numpy.*,scipy.*]\nfollow_imports = skip\n",
        encoding="utf-8",
    )
    done = subprocess.run(
        [sys.executable, "-m", "mypy", f"--config-file={settings}", str(script)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT)},
    )
    assert 'Revealed type is "float"' in done.stdout.replace("builtins.", "")
    assert "clipping_fn" in done.stdout
    assert "py.typed" not in done.stdout
