"""SQLite files are for the processes of one machine: what tells that they are not.

SQLite's write-ahead log is shared by memory and file locks, which network file systems
do not have between machines: databases on them are damaged sooner or later.

Source: SQLite, "Write-Ahead Logging", section 1, and "How To Corrupt An SQLite Database
File", section 2.1.
"""

from __future__ import annotations

import contextlib
import platform
import re
import sqlite3
import time
from pathlib import Path

from dpsgd_explorer.errors import ConfigError

MOUNTS = Path("/proc/self/mountinfo")
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
#: File systems that several machines write to, as the kernel calls them.
SHARED = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "afs", "ceph", "glusterfs", "lustre"}
    | {"gpfs", "beegfs", "ocfs2", "gfs2", "orangefs", "davfs", "fuse.sshfs"}
    | {"fuse.rclone", "fuse.s3fs", "fuse.gcsfuse", "fuse.glusterfs", "fuse.ceph"}
    | {"fuse.ceph-fuse", "fuse.juicefs", "fuse.seaweedfs", "fuse.curlftpfs"}
)
OCTAL = re.compile(r"\\([0-7]{3})")
#: A worker that gave a sign within this time is there.
PRESENT_SECONDS = 30.0
INSTEAD = (
    "SQLite works for the processes of a single machine. For several machines, set "
    "DPSGD_DATABASE_URL=postgresql+psycopg://… (docs/how-to/operate/several-hosts.md)"
)


def file_system_of(folder: Path, mounts: str) -> str:
    """Return the kind of file system that a folder is on; "" if that is not known.

    Args:
        folder: A path; what is not there yet counts with the folder that is.
        mounts: Text as /proc/self/mountinfo has it.
    """
    place, longest, kind = folder.resolve(), -1, ""
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        fields = before.split(" ")
        if len(fields) < 5 or not after:
            continue
        point = Path(OCTAL.sub(lambda code: chr(int(code[1], 8)), fields[4]))
        # Of mounts at one place the last one is seen.
        if place.is_relative_to(point) and len(point.parts) >= longest:
            longest, kind = len(point.parts), after.split(" ")[0]
    return kind


def refuse_shared_folder(variable: str, file: Path) -> None:
    """Refuse a SQLite file on a file system of several machines.

    Args:
        variable: The environment variable that leads to it.
        file: The database.

    Raises:
        ConfigError: naming the folder and its file system.
    """
    try:
        kind = file_system_of(file.parent, MOUNTS.read_text(errors="replace"))
    except OSError:
        return  # a system without such a list
    if kind in SHARED:
        raise ConfigError(
            variable,
            f"{variable} must be a file on a disk of this machine: {file.parent} is on "
            f"a network file system ({kind}), which damages SQLite's files. Put "
            "DPSGD_INSTANCE_DIR on a local disk, or set DPSGD_DATABASE_URL="
            "postgresql+psycopg://… (docs/how-to/operate/several-hosts.md).",
        )


def machine_id() -> str:
    """Return what tells this machine from others, with all containers on it alike.

    It changes when the machine starts again.
    """
    with contextlib.suppress(OSError):
        return BOOT_ID.read_text().strip()
    return platform.node()[:36]


def refuse_other_machines(file: Path) -> None:
    """Refuse a SQLite file that a worker of another machine uses now.

    Signs of workers are read as ``operation.workers`` writes them.

    Raises:
        ConfigError: naming the machine.
    """
    if not file.exists():
        return
    query = "SELECT name, host, seen_at FROM workers WHERE seen_at > ?"
    since = time.time() - PRESENT_SECONDS
    try:
        address = f"{file.resolve().as_uri()}?mode=ro"
        with contextlib.closing(sqlite3.connect(address, uri=True)) as connection:
            found = connection.execute(query, [since]).fetchall()
    except sqlite3.Error:
        return  # of an earlier version, or busy: opening it tells more
    here = platform.node()[:80], machine_id()
    for name, host, seen_at in found:
        # A machine that has started again has its name, a container its machine's id.
        if host != here[0] and here[1] not in name:
            raise ConfigError(
                "DPSGD_DATABASE_URL",
                f"the database {file} must be used on one machine only, got {here[0]}: "
                f"a worker on the machine {host} used it "
                f"{max(0.0, time.time() - seen_at):.0f} seconds ago. {INSTEAD}.",
            )
