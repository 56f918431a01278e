"""Compiling the noise: where there is no compiler, or a bad one, torch draws it."""

import subprocess
import sys

import pytest

from tools.compile_noise import ROOT

TOOL = ROOT / "tools/compile_noise.py"


@pytest.mark.parametrize(
    ("compiler", "said"),
    [("none-such", "No C compiler"), ("false", "refuses the noise's source")],
)
def test_an_install_goes_on_without_a_compiled_file(compiler, said, tmp_path):
    run = subprocess.run(
        [sys.executable, str(TOOL), str(tmp_path)],
        env={"CC": compiler, "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert said in run.stdout
    assert "drawn by torch" in run.stdout
    assert list(tmp_path.iterdir()) == []
