"""Runs tests against mutated copies of the package: one process, a fork for each.

    python -m tests.dp.mutations.arena FOLDER

FOLDER holds one folder for each trial, with the copies and a ``trial.json`` that lists
the tests; ``result.json`` is put beside it.  The libraries are loaded once, before the
forks; the package itself is not, so each fork loads its own copy.
"""

import contextlib
import json
import os
import sys
import time
from pathlib import Path


def main(folder):
    import cryptography.hazmat.primitives.ciphers  # noqa: F401
    import hypothesis  # noqa: F401
    import scipy.stats  # noqa: F401
    import torch
    import torch.utils.data

    torch.set_num_threads(1)
    torch.optim.SGD([torch.zeros(1)], lr=0.1)  # loads the larger half of torch
    for trial in sorted(folder.iterdir()):
        child = os.fork()
        if child == 0:
            os._exit(_run(trial))
        os.waitpid(child, 0)


def _run(trial):
    import pytest

    start = time.perf_counter()
    os.chdir(trial)
    sys.path[:] = [str(trial), *(p for p in sys.path if p not in ("", str(Path.cwd())))]
    tests = json.loads(Path("trial.json").read_text())
    with Path("output.txt").open("w") as out, contextlib.redirect_stdout(out):
        code = pytest.main(
            ["-q", "-x", "-p", "no:cacheprovider", "-c", "pytest.ini", *tests]
        )
    result = {"code": int(code), "seconds": time.perf_counter() - start}
    Path("result.json").write_text(json.dumps(result))
    return 0


if __name__ == "__main__":
    main(Path(sys.argv[1]))
