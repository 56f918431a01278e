"""Detection of SQLite files that several machines use.

SQLite's write-ahead log needs shared memory and file locks, which network file systems
do not provide between machines: a database on one is damaged sooner or later.

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
#: Kernel names of file systems to which several machines can write.
NETWORK_FILE_SYSTEMS = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "afs", "ceph", "glusterfs", "lustre"}
    | {"gpfs", "beegfs", "ocfs2", "gfs2", "orangefs", "davfs", "fuse.sshfs"}
    | {"fuse.rclone", "fuse.s3fs", "fuse.gcsfuse", "fuse.glusterfs", "fuse.ceph"}
    | {"fuse.ceph-fuse", "fuse.juicefs", "fuse.seaweedfs", "fuse.curlftpfs"}
)
OCTAL = re.compile(r"\\([0-7]{3})")
#: Age of a heartbeat up to which a worker counts as present.
PRESENT_SECONDS = 30.0
REMEDY = (
    "SQLite works for the processes of a single machine. For several machines, set "
    "DPSGD_DATABASE_URL=postgresql+psycopg://… (docs/how-to/operate/several-hosts.md)"
)


def file_system_of(folder: Path, mounts: str) -> str:
    """Returns the type of a folder's file system; "" if it is unknown.

    Args:
        folder: Path of the folder, which need not exist yet.
        mounts: Text in the format of /proc/self/mountinfo.
    """
    place, longest, kind = folder.resolve(), -1, ""
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        fields = before.split(" ")
        if len(fields) < 5 or not after:
            continue
        point = Path(OCTAL.sub(lambda code: chr(int(code[1], 8)), fields[4]))
        # The last mount at a path hides the earlier ones.
        if place.is_relative_to(point) and len(point.parts) >= longest:
            longest, kind = len(point.parts), after.split(" ")[0]
    return kind


def refuse_shared_folder(variable: str, file: Path) -> None:
    """Rejects a SQLite file on a network file system.

    Args:
        variable: Environment variable with the address of the file.
        file: The database.

    Raises:
        ConfigError: The file is on a network file system.
    """
    try:
        kind = file_system_of(file.parent, MOUNTS.read_text(errors="replace"))
    except OSError:
        return  # systems other than Linux have no list of mounts
    if kind in NETWORK_FILE_SYSTEMS:
        raise ConfigError(
            variable,
            f"{variable} must be a file on a disk of this machine: {file.parent} is on "
            f"a network file system ({kind}), which damages SQLite's files. Put "
            "DPSGD_INSTANCE_DIR on a local disk, or set DPSGD_DATABASE_URL="
            "postgresql+psycopg://… (docs/how-to/operate/several-hosts.md).",
        )


def machine_id() -> str:
    """Returns an id of this machine, which all its containers share.

    The id changes when the machine restarts.
    """
    with contextlib.suppress(OSError):
        return BOOT_ID.read_text().strip()
    return platform.node()[:36]


def refuse_other_machines(file: Path) -> None:
    """Rejects a SQLite file that a worker on another machine currently uses.

    The heartbeats that ``operation.workers`` writes are read without SQLAlchemy.

    Raises:
        ConfigError: A worker on another machine has a recent heartbeat.
    """
    if not file.exists():
        return
    query = "SELECT name, host, seen_at FROM workers WHERE seen_at > ?"
    since = time.time() - PRESENT_SECONDS
    try:
        address = f"{file.resolve().as_uri()}?mode=ro"
        with contextlib.closing(sqlite3.connect(address, uri=True)) as connection:
            workers = connection.execute(query, [since]).fetchall()
    except sqlite3.Error:
        return  # an earlier version, or busy: opening the database reports more
    here = platform.node()[:80], machine_id()
    for name, host, seen_at in workers:
        # After a restart the host name is equal; in a container the machine id is.
        if host != here[0] and here[1] not in name:
            raise ConfigError(
                "DPSGD_DATABASE_URL",
                f"the database {file} must be used on one machine only, got {here[0]}: "
                f"a worker on the machine {host} used it "
                f"{max(0.0, time.time() - seen_at):.0f} seconds ago. {REMEDY}.",
            )
