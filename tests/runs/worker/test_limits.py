"""What the system is asked to hold a process to, and what it says is left."""

import json
import subprocess
import sys

import pytest

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


@pytest.fixture
def system(tmp_path, monkeypatch):
    """Write the files in which the kernel tells about memory."""
    monkeypatch.setattr(limits, "CONTROL_GROUP", tmp_path)
    monkeypatch.setattr(limits, "SYSTEM_MEMORY", tmp_path / "meminfo")

    def write(files):
        for name, text in files.items():
            file = tmp_path / name
            file.parent.mkdir(exist_ok=True)
            file.write_text(text)

    return write


MEBIBYTE = 2**20


def test_free_memory_is_that_of_the_machine_without_a_control_group(system):
    system({"meminfo": "MemTotal: 9999999 kB\nMemAvailable:    2048 kB\n"})
    assert limits.free_memory_mib() == 2


def test_files_that_can_be_dropped_count_as_free_in_a_control_group(system):
    system(
        {
            "meminfo": "MemAvailable: 99999999 kB\n",
            "memory.max": f"{100 * MEBIBYTE}\n",
            "memory.current": f"{90 * MEBIBYTE}\n",
            "memory.stat": f"anon 7\ninactive_file {30 * MEBIBYTE}\n",
        }
    )
    assert limits.free_memory_mib() == 40


def test_a_control_group_of_the_first_version_is_read(system):
    system(
        {
            "meminfo": "MemAvailable: 99999999 kB\n",
            "memory/memory.limit_in_bytes": f"{100 * MEBIBYTE}\n",
            "memory/memory.usage_in_bytes": f"{90 * MEBIBYTE}\n",
            "memory/memory.stat": "total_inactive_file 0\n",
            "memory/memory.oom_control": "oom_kill_disable 0\noom_kill 3\n",
        }
    )
    assert limits.free_memory_mib() == 10
    assert limits.oom_kills() == 3


def test_a_group_without_a_limit_has_the_machines_memory(system):
    system(
        {
            "meminfo": "MemAvailable: 1024 kB\n",
            "memory.max": "max\n",
            "memory.current": "5\n",
            "memory.events": "oom 9\noom_kill 2\noom_group_kill 0\n",
        }
    )
    assert limits.free_memory_mib() == 1
    assert limits.oom_kills() == 2
