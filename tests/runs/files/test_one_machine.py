"""SQLite files on a network, or used by another machine, are refused at the start."""

import platform
import re
import subprocess
import time
from pathlib import Path

import pytest

from dpsgd_explorer.cli.main import main
from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.runs.files import one_machine
from dpsgd_explorer.runs.files.one_machine import (
    file_system_of,
    refuse_other_machines,
)
from dpsgd_explorer.runs.operation.workers import WorkerSign
from dpsgd_explorer.runs.store.database import Database

MOUNTS = r"""22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
31 22 0:27 / /home rw - nfs4 server:/home rw,vers=4.2
32 31 0:28 / /home/ann\040b rw - fuse.sshfs ann@host: rw
33 22 0:29 / /mnt rw master:3 propagate_from:2 - cifs //server/share rw
34 33 8:2 / /mnt rw - xfs /dev/sdb1 rw
"""


@pytest.mark.parametrize(
    ("folder", "kind"),
    [
        ("/", "ext4"),
        ("/homes/ann", "ext4"),
        ("/home/ann", "nfs4"),
        ("/home/ann b/instance", "fuse.sshfs"),
        ("/mnt/instance", "xfs"),  # mounted over the share
    ],
)
def test_a_folder_is_on_the_file_system_that_is_mounted_there(folder, kind):
    assert file_system_of(Path(folder), MOUNTS) == kind


def test_this_machines_list_of_mounts_is_understood():
    asked = ["stat", "--file-system", "--format=%T", "/proc"]
    known = subprocess.run(asked, capture_output=True, text=True, check=True)
    assert known.stdout.strip() == "proc"
    assert file_system_of(Path("/proc"), one_machine.MOUNTS.read_text()) == "proc"


@pytest.fixture
def on_the_network(tmp_path, monkeypatch):
    """The instance folder of this process, on what looks like a network file system."""
    mounts = tmp_path / "mountinfo"
    mounts.write_text(f"{MOUNTS}40 22 0:30 / {tmp_path} rw - nfs4 server:/export rw")
    monkeypatch.setattr(one_machine, "MOUNTS", mounts)
    folder = tmp_path / "instance"
    monkeypatch.setenv("DPSGD_INSTANCE_DIR", str(folder))
    return folder


@pytest.mark.parametrize("command", ["serve", "worker"])
def test_a_site_does_not_start_on_a_network_file_system(
    on_the_network, capsys, command
):
    assert main([command]) == 2
    said = capsys.readouterr().err
    assert f"{on_the_network} is on a network file system (nfs4)" in said
    assert "local disk, or set DPSGD_DATABASE_URL=postgresql" in said
    assert not list(on_the_network.iterdir())


def test_the_doctor_names_the_network_file_system(on_the_network, capsys):
    assert main(["doctor"]) == 1
    found = re.findall("fault +database +(.*)", capsys.readouterr().out)
    assert len(found) == 1
    assert "network file system (nfs4)" in found[0]


@pytest.fixture
def used(tmp_path, monkeypatch):
    """A file that a worker of another machine uses, and what signs there."""
    file = tmp_path / "runs.sqlite3"
    database = Database(f"sqlite:///{file}")
    there = "11111111-2222-3333-4444-555555555555"
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(platform, "node", lambda: "other-host")
        elsewhere.setattr(
            "dpsgd_explorer.runs.operation.workers.machine_id", lambda: there
        )
        sign = WorkerSign(database, 1, clock=time.time)
        sign.tend(0)
    yield file, there, sign
    database.close()


def test_a_file_that_another_machine_uses_is_refused_while_it_does(used):
    file, _, sign = used
    with pytest.raises(ConfigError, match="a worker on the machine other-host"):
        refuse_other_machines(file)
    sign.end()
    refuse_other_machines(file)


def test_another_container_of_this_machine_and_its_own_restart_are_let_in(
    used, monkeypatch
):
    file, there, _ = used
    with monkeypatch.context() as container:
        container.setattr(one_machine, "machine_id", lambda: there)
        refuse_other_machines(file)
    monkeypatch.setattr(platform, "node", lambda: "other-host")
    refuse_other_machines(file)


def test_a_file_that_cannot_be_read_is_left_to_who_opens_it(tmp_path):
    refuse_other_machines(tmp_path / "none")
    for name, content in {"empty": b"", "other": b"no database" * 100}.items():
        (tmp_path / name).write_bytes(content)
        refuse_other_machines(tmp_path / name)


def test_serve_names_the_other_machine(used, monkeypatch, capsys):
    monkeypatch.setenv("DPSGD_INSTANCE_DIR", str(used[0].parent))
    assert main(["serve"]) == 2
    assert "other-host" in capsys.readouterr().err
