"""Compiling the noise: where there is no compiler, or a bad one, torch draws it."""

import subprocess
import sys
import sysconfig

import pytest

from dpsgd_explorer.dp.backends.native.library import compiled_file
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


def test_a_library_takes_the_place_of_an_older_name(tmp_path):
    older = tmp_path / f"_box_muller{sysconfig.get_config_var('EXT_SUFFIX')}"
    older.touch()
    subprocess.run([sys.executable, str(TOOL), str(tmp_path)], check=True)
    assert not older.exists()
    assert compiled_file(tmp_path, "_box_muller") == tmp_path / "_box_muller.so"
