"""Runs tests with bugs planted: one process that forks, a child for each bug.

    python -m tests.dp.mutations.arena FOLDER BUG...

The parent loads torch and the package once; a child plants its bug in them, loads the
tests and runs them.  Each result is a file of FOLDER.
"""

import contextlib
import gc
import io
import json
import os
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[3]
TIMEOUT_S = 60
OPTIONS = (
    *("-q", "-x", "--noconftest", "-p", "no:cacheprovider", "-p", "no:xdist"),
    *("-o", f"timeout={TIMEOUT_S}"),
    *("-W", "ignore::pytest.PytestAssertRewriteWarning"),  # hypothesis is loaded here
)
PASSED, FAILED = 0, 1


class Result(NamedTuple):
    """What became of the tests of one bug.

    Attributes:
        code: pytest's exit status.
        seconds: How long they ran, CPU time.
        output: What pytest printed.
    """

    code: int
    seconds: float
    output: str


def results(bugs: Sequence[str]) -> list[Result]:
    """Return the result of each bug, and of all their tests without a bug, first.

    Args:
        bugs: Names of ``catalogue()``.
    """
    outside = ("PYTEST_", "COV_")
    environment = {k: v for k, v in os.environ.items() if not k.startswith(outside)}
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            [sys.executable, "-m", __name__, folder, *bugs],
            cwd=ROOT,
            env=environment | {"OMP_NUM_THREADS": "1"},
            check=True,
        )
        files = [Path(folder) / f"{i}.json" for i in range(len(bugs) + 1)]
        return [Result(*json.loads(file.read_text())) for file in files]


def catalogue():
    """Return {name: bug}, the name of a rule's mutation being "rule: mutation"."""
    from tests.dp.mutations.dp_sgd import BUGS
    from tests.dp.mutations.rules import RULES

    return BUGS | {
        f"{rule}: {each.name}": each for rule, bugs in RULES.items() for each in bugs
    }


def main(folder, names):
    import scipy.stats  # noqa: F401 - loaded once, not by each child
    import torch
    from hypothesis import Phase, settings

    # Examples are the same each time, and a failing one is not made smaller.
    phases = [Phase.explicit, Phase.generate]
    settings.register_profile("planted", phases=phases, derandomize=True, database=None)
    settings.load_profile("planted")
    torch.set_num_threads(1)
    torch.optim.SGD([torch.zeros(1)], lr=0.1)  # loads the larger half of torch
    bugs = [catalogue()[name] for name in names]
    every = sorted({test for each in bugs for test in each.tests})
    trials = [(every, None), *((each.tests, each.plant) for each in bugs)]
    gc.freeze()  # no child walks through what the parent has loaded
    for i, (tests, plant) in enumerate(trials):
        child = os.fork()
        if child == 0:
            try:
                result = _run(tests, plant)
                (folder / f"{i}.json").write_text(json.dumps(result))
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(0)
        os.waitpid(child, 0)


def _run(tests, plant):
    import pytest

    start, output = time.process_time(), io.StringIO()
    if plant is not None:
        plant()
    with contextlib.redirect_stdout(output):
        code = pytest.main([*OPTIONS, *(f"tests/dp/{test}" for test in tests)])
    return Result(int(code), time.process_time() - start, output.getvalue())


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
