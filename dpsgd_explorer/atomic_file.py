"""Writes a file atomically: the whole new content, or the old."""

from __future__ import annotations

import os
from pathlib import Path


def write_whole(path: Path, content: bytes, *, mode: int = 0o666) -> None:
    """Writes the content to a temporary file, then renames the file to the path.

    Args:
        path: Path of the file.
        content: Whole content of the file.
        mode: Permissions of the file, before the umask is applied.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        handle = os.open(temporary, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, mode)
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
