"""What the system is asked to hold a process to."""

import json
import subprocess
import sys

from dpsgd_explorer.runs.worker import limits

SHOW = """
import json, os, resource
from dpsgd_explorer.runs.worker import limits
limits.apply(memory_mib=300, seconds=60, threads=2)
names = ("DATA", "CPU", "NOFILE", "CORE")
got = {name: resource.getrlimit(getattr(resource, f"RLIMIT_{name}")) for name in names}
try:
    bytearray(400 * 2**20)
except MemoryError:
    got["refused"] = True
print(json.dumps(got | {"nice": os.nice(0)}))
"""


def test_a_process_can_be_held_to_its_limits():
    shown = subprocess.run(
        [sys.executable, "-c", SHOW], capture_output=True, text=True, check=True
    )
    got = json.loads(shown.stdout)
    assert got["refused"]
    assert got["DATA"] == [300 * 2**20] * 2
    assert got["CPU"] == [60 * 2 + 60, 60 * 2 + 120]
    assert got["NOFILE"][0] <= limits.OPEN_FILES
    assert got["CORE"] == [0, 0]
    assert got["nice"] >= limits.NICENESS
