"""The C files under the address and undefined-behaviour sanitizers.

Each file is compiled with both by a compiler that adds their flags, and the tests that
compile it run in a process of their own.  Any report ends that process.
"""

import os
import re
import subprocess
import sys
import tomllib

import pytest

from tools.compile_noise import ROOT, compiler

pytestmark = [pytest.mark.long("sanitizers"), pytest.mark.timeout(1200)]

#: Tests that compile a C file of today and call all of its functions.
EXERCISES = {
    "_box_muller": "noise/test_box_muller.py",
    "_patch_products": "layers/test_convolution_gradients.py",
    "_linear_products": "layers/test_linear_gradients.py",
    "_weighted_sum": "backends/native/test_weighted_sum.py",
    "_outer_products": "backends/native/test_outer_products.py",
    "_lstm_steps": "layers/test_lstm_steps.py",
}
MORE = {
    "threads": "backends/native/test_team.py",
    "maps": "backends/native/test_linear_maps.py",
}
#: Left out: faults that are planted there, and what compiles another way.
LEFT_OUT = "not fault and not another_version and not constants and not without_a"
FLAGS = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-O1", "-g"]
REPORT = re.compile(r"AddressSanitizer|UndefinedBehaviorSanitizer|runtime error:")
#: (source, right, wrong) that a sanitizer must see.
PLANTED = {
    "a write beyond the sum": (
        "dpsgd_explorer/dp/backends/native/weighted_sum.c",
        "for (; k < end; k++) {",
        "for (; k <= end; k++) {",
    ),
    "a shift by more bits than there are": (
        "dpsgd_explorer/dp/backends/native/weighted_sum.c",
        "ptrdiff_t k = first;",
        "ptrdiff_t k = first + (1 >> (int)(40 + samples));",
    ),
}


def sanitizing_compiler(folder, planted=None):
    """Write a compiler that adds the flags, and takes a faulty source if one is given.

    Returns:
        Its path, which ``CC`` may name.
    """
    swapped = {}
    if planted:
        source, right, wrong = planted
        text = (ROOT / source).read_text(encoding="utf-8")
        assert text.count(right) == 1
        faulty = folder / "faulty.c"
        faulty.write_text(text.replace(right, wrong), encoding="utf-8")
        swapped[str(ROOT / source)] = [f"-I{(ROOT / source).parent}", str(faulty)]
    file = folder / "cc"
    file.write_text(
        f"#!{sys.executable}\n"
        "import os, sys\n"
        "os.environ.pop('LD_PRELOAD', None)\n"
        f"swapped = {swapped!r}\n"
        "given = [y for x in sys.argv[1:] for y in swapped.get(x, [x])]\n"
        f"command = [{compiler()!r}, *given, *{FLAGS!r}]\n"
        "os.execv(command[0], command)\n",
        encoding="utf-8",
    )
    file.chmod(0o755)
    return file


def run_under_sanitizers(folder, test, planted=None):
    """Run a file of tests whose libraries are compiled with both sanitizers."""
    runtime = subprocess.run(
        [compiler(), "-print-file-name=libasan.so"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    environment = {
        **os.environ,
        "CC": str(sanitizing_compiler(folder, planted)),
        "LD_PRELOAD": runtime,
        # Python and torch keep memory until they end: leaks are not looked for.
        "ASAN_OPTIONS": "detect_leaks=0:abort_on_error=0",
        "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
        "OMP_NUM_THREADS": "2",
        "PYTHONMALLOC": "malloc",
    }
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    command += ["-s", "-x", "-k", LEFT_OUT, str(ROOT / "tests/dp" / test)]
    return subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )


def test_every_c_file_is_exercised():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    modules = project["tool"]["setuptools"]["ext-modules"]
    assert {x["name"].rpartition(".")[2] for x in modules} == set(EXERCISES)


@pytest.mark.parametrize("name", [*EXERCISES, *MORE])
def test_the_sanitizers_have_nothing_to_report(name, tmp_path):
    done = run_under_sanitizers(tmp_path, {**EXERCISES, **MORE}[name])
    said = done.stdout + done.stderr
    assert not REPORT.search(said), said[-6000:]
    assert done.returncode == 0, said[-6000:]
    assert re.search(r"\d+ passed", done.stdout)


@pytest.mark.parametrize("fault", PLANTED)
def test_the_sanitizers_report_a_planted_fault(fault, tmp_path):
    done = run_under_sanitizers(
        tmp_path, EXERCISES["_weighted_sum"], planted=PLANTED[fault]
    )
    assert done.returncode != 0
    assert REPORT.search(done.stdout + done.stderr)
