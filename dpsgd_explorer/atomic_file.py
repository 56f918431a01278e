"""Writes a file atomically: the whole new content, or the old."""

from __future__ import annotations

import os
from pathlib import Path


def write_whole(path: Path, content: bytes, *, mode: int = 0o666) -> None:
    """Write the content to a temporary file, then rename it to the path.

    Args:
        path: Where it is to stand.
        content: All of it.
        mode: Who may read and write it, less what the umask takes away.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        handle = os.open(temporary, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, mode)
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
