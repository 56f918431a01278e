"""Times of norm methods by processor and layer call, kept in memory and in a file.

The file is a help, never needed: one that cannot be read, or is of another processor or
version, is as if there were none, and a folder that cannot be written is left alone.
It holds shapes of layers and times, nothing of the data.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from threading import Lock
from typing import Any

from dpsgd_explorer.atomic_file import write_whole
from dpsgd_explorer.settings import user_cache

#: Layout of the file.
VERSION = 1
#: Keys per processor; a file with more is begun anew.
MOST_KEYS = 4096

#: {method: seconds per sample}.
Times = Mapping[str, float]


class MethodCache:
    """Times by processor and key of a layer call.

    Args:
        folder: Where the files are, one per processor; None for memory alone.
    """

    #: The user's own, shared by all engines of this process.
    _of_user: MethodCache | None = None

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._times: dict[str, dict[str, Times]] = {}
        self._lock = Lock()

    @classmethod
    def of_user(cls) -> MethodCache:
        """Return the cache in the user's folder for files that can be made again."""
        if MethodCache._of_user is None:
            folder = None
            with suppress(RuntimeError):  # the user has no home
                folder = user_cache() / "norm_methods"
            MethodCache._of_user = cls(folder)
        return MethodCache._of_user

    def times(self, processor: str, key: str) -> Times:
        """Return the times of a key; {} if there are none."""
        with self._lock:
            if processor not in self._times:
                self._times[processor] = self._read(processor)
            return self._times[processor].get(key, {})

    def add(self, processor: str, key: str, times: Times) -> None:
        """Keep the times of a key, beside what other processes have written."""
        with self._lock:
            known = {**self._read(processor), **self._times.get(processor, {})}
            if len(known) >= MOST_KEYS:
                known = {}
            known[key] = dict(times)
            self._times[processor] = known
            self._write(processor, known)

    def _path(self, folder: Path, processor: str) -> Path:
        return folder / f"{sha256(processor.encode()).hexdigest()[:16]}.json"

    def _read(self, processor: str) -> dict[str, Times]:
        """Return what the file holds, {} if it is not one that ``_write`` wrote."""
        if self._folder is None:
            return {}
        try:
            text = self._path(self._folder, processor).read_text(encoding="utf-8")
            found = json.loads(text)
        except (OSError, ValueError, RecursionError):
            return {}
        head = {"version": VERSION, "processor": processor}
        if not isinstance(found, dict) or not head.items() <= found.items():
            return {}
        every = found.get("seconds_per_sample")
        if not isinstance(every, dict):
            return {}
        return {key: times for key, times in every.items() if _are_times(times)}

    def _write(self, processor: str, known: Mapping[str, Times]) -> None:
        if self._folder is None:
            return
        found = {
            "version": VERSION,
            "processor": processor,
            "seconds_per_sample": known,
        }
        with suppress(OSError):
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            content = json.dumps(found, indent=1).encode()
            write_whole(self._path(self._folder, processor), content, mode=0o600)


def _are_times(times: Any) -> bool:
    """Whether a value of the file is {method: seconds above 0}."""
    if not isinstance(times, dict):
        return False
    seconds = times.values()
    return all(isinstance(s, float) and 0 < s < math.inf for s in seconds)
