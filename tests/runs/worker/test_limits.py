"""What the system is asked to hold a process to."""

import json
import os
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
loading = os.nice(0)
limits.lower_priority()
print(json.dumps(got | {"nice": os.nice(0) - loading, "loading": loading}))
"""


def test_a_process_can_be_held_to_its_limits():
    shown = subprocess.run(
        [sys.executable, "-c", SHOW], capture_output=True, text=True, check=True
    )
    got = json.loads(shown.stdout)
    assert got["refused"]
    assert got["DATA"] == [300 * 2**20, 300 * 2**20 + limits.IDLE_BYTES]
    assert got["CPU"] == [60 * 2 + 60, 60 * 2 + 120]
    assert got["NOFILE"][0] <= limits.OPEN_FILES
    assert got["CORE"] == [0, 0]
    assert got["loading"] == os.nice(0)
    assert got["nice"] == min(limits.NICENESS, 19 - got["loading"])


HOLD_AND_TAKE = """
import resource
from dpsgd_explorer.runs.worker import limits
limits.apply(memory_mib=300, seconds=60, threads=2)
before = limits.data_bytes()
held = bytearray(200 * 2**20)
limits.allow(limits.data_bytes() - before)
run = bytearray(250 * 2**20)
try:
    bytearray(100 * 2**20)
except MemoryError:
    print("both limits hold")
"""


def test_what_a_spare_holds_does_not_count_for_its_run():
    shown = subprocess.run(
        [sys.executable, "-c", HOLD_AND_TAKE], capture_output=True, text=True
    )
    assert shown.stdout == "both limits hold\n", shown.stderr
