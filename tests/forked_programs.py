"""Python programs that run one after another, each in a fork of one loaded process.

    python -m tests.forked_programs

To load torch takes seconds, a fork milliseconds.  A program finds an empty module
``__main__``, and must import all that it uses.
"""

import importlib
import json
import os
import re
import subprocess
import sys
import traceback
import types
from pathlib import Path

ROOT = Path(__file__).parents[1]
IMPORTED = re.compile(r"^(?:import|from) (torch|lightning|transformers|peft)\b", re.M)
#: What nearly every program with torch loads; an optimizer loads the second.
WITH_TORCH = ["torch", "torch._dynamo", "dpsgd_explorer.dp"]


def environment():
    """Return the environment variables of documented programs and commands."""
    python = str(Path(sys.executable).parent)
    return {
        "PATH": f"{python}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "OMP_NUM_THREADS": "1",
    }


class ForkedPrograms:
    """A context manager; within it, ``run`` runs programs."""

    def __enter__(self):
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__],
            cwd=ROOT,
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        return self

    def __exit__(self, *_):
        self._process.stdin.close()
        assert self._process.wait() == 0
        self._process.stdout.close()

    def run(self, program, folder):
        """Run a program in a folder, where its output goes to a file.

        Returns:
            Exit code and output.
        """
        packages = set(IMPORTED.findall(program))
        if packages:
            packages.update(WITH_TORCH)
        output = folder / "output.txt"
        asked = [program, str(folder), str(output), sorted(packages)]
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        code = int(self._process.stdout.readline())
        return code, output.read_text(encoding="utf-8")


def main():
    """Fork for each line of standard input; print the exit codes."""
    for line in sys.stdin:
        *asked, packages = json.loads(line)
        for name in packages:
            importlib.import_module(name)
        child = os.fork()
        if child == 0:
            os._exit(_run(*asked))
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def _run(program, folder, output):
    os.chdir(folder)
    file = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for stream, number in ((os.open(os.devnull, os.O_RDONLY), 0), (file, 1), (file, 2)):
        os.dup2(stream, number)
    sys.argv, sys.path[0] = ["-c"], ""
    namespace = sys.modules["__main__"] = types.ModuleType("__main__")
    try:
        exec(compile(program, "<program>", "exec"), vars(namespace))
    except BaseException:
        traceback.print_exc()
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    return 0


if __name__ == "__main__":
    main()
