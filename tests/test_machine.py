"""How much of a machine is ours, and how many runs it is given at a time."""

import pytest

from dpsgd_explorer import machine


@pytest.fixture
def kernel_files(tmp_path, monkeypatch):
    """Write the files in which the kernel describes a machine of eight cores."""
    monkeypatch.setattr(machine, "CONTROL_GROUP", tmp_path)
    monkeypatch.setattr(machine, "SYSTEM_MEMORY", tmp_path / "meminfo")
    monkeypatch.setattr(
        machine.os, "sched_getaffinity", lambda _: set(range(8)), raising=False
    )

    def write(files):
        for name, text in files.items():
            file = tmp_path / name
            file.parent.mkdir(exist_ok=True)
            file.write_text(text)

    return write


@pytest.fixture
def system(kernel_files):
    """Describe a machine with so much memory, and its control group."""

    def write(memory_mib, **files):
        named = {
            name.replace("__", "/").replace("_of_", "."): text
            for name, text in files.items()
        }
        kernel_files({"meminfo": f"MemTotal:  {memory_mib * 1024} kB\n"} | named)

    return write


@pytest.mark.parametrize(
    ("memory_mib", "threads", "for_many", "runs"),
    [
        (64_000, 1, False, 8),
        (64_000, 1, True, 24),
        (64_000, 4, True, 6),
        (64_000, 16, False, 1),
        (8_000, 1, True, 4),
        (2_000, 1, True, 1),
    ],
)
def test_runs_are_sized_to_cores_and_memory(
    system, memory_mib, threads, for_many, runs
):
    system(memory_mib)
    assert machine.runs_at_a_time(threads, for_many=for_many) == runs


def test_a_control_group_of_version_2_limits_both(system):
    system(64_000, cpu_of_max="200000 100000\n", memory_of_max=f"{6_300 * 2**20}\n")
    assert machine.cores() == 2
    assert machine.runs_at_a_time(1, for_many=True) == 3


def test_a_control_group_of_version_1_limits_both(system):
    system(
        64_000,
        cpu__cpu_of_cfs_quota_us="150000\n",
        cpu__cpu_of_cfs_period_us="100000\n",
        memory__memory_of_limit_in_bytes=f"{4_000 * 2**20}\n",
    )
    assert machine.cores() == 1.5
    assert machine.memory_mib() == 4_000


@pytest.mark.parametrize("quota", ["max 100000\n", "0 100000\n", "nonsense"])
def test_no_quota_is_all_cores(system, quota):
    system(64_000, cpu_of_max=quota)
    assert machine.cores() == 8


def test_without_a_quota_in_version_1_all_cores_count(system):
    system(64_000, cpu__cpu_of_cfs_quota_us="-1\n", cpu__cpu_of_cfs_period_us="1000\n")
    assert machine.cores() == 8


MEBIBYTE = 2**20


def test_free_memory_is_that_of_the_machine_without_a_control_group(kernel_files):
    kernel_files({"meminfo": "MemTotal: 9999999 kB\nMemAvailable:    2048 kB\n"})
    assert machine.free_memory_mib() == 2


def test_files_that_can_be_dropped_count_as_free_in_a_control_group(kernel_files):
    kernel_files(
        {
            "meminfo": "MemAvailable: 99999999 kB\n",
            "memory.max": f"{100 * MEBIBYTE}\n",
            "memory.current": f"{90 * MEBIBYTE}\n",
            "memory.stat": f"anon 7\ninactive_file {30 * MEBIBYTE}\n",
        }
    )
    assert machine.free_memory_mib() == 40


def test_a_control_group_of_the_first_version_is_read(kernel_files):
    kernel_files(
        {
            "meminfo": "MemAvailable: 99999999 kB\n",
            "memory/memory.limit_in_bytes": f"{100 * MEBIBYTE}\n",
            "memory/memory.usage_in_bytes": f"{90 * MEBIBYTE}\n",
            "memory/memory.stat": "total_inactive_file 0\n",
            "memory/memory.oom_control": "oom_kill_disable 0\noom_kill 3\n",
        }
    )
    assert machine.free_memory_mib() == 10
    assert machine.oom_kills() == 3


def test_a_group_without_a_limit_has_the_machines_memory(kernel_files):
    kernel_files(
        {
            "meminfo": "MemAvailable: 1024 kB\n",
            "memory.max": "max\n",
            "memory.current": "5\n",
            "memory.events": "oom 9\noom_kill 2\noom_group_kill 0\n",
        }
    )
    assert machine.free_memory_mib() == 1
    assert machine.oom_kills() == 2
