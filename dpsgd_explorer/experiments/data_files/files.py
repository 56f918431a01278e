"""Data files with a checked hash."""

from __future__ import annotations

import gzip
import hashlib
import lzma
import zlib
from dataclasses import dataclass
from pathlib import Path

from dpsgd_explorer.errors import DataError

FOLDER = Path(__file__).parents[2] / "training" / "data"
REMEDY = "Restore it from the repository, or make it again with tools/make_data.py."


@dataclass(frozen=True)
class DataFile:
    """A compressed file and the hash of its content.

    Attributes:
        path: Path below the data folder; ``.gz`` or ``.xz`` gives the compression.
        sha256: Hash of the decompressed content, so a copy that was compressed by
            another program is valid too.
    """

    path: str
    sha256: str

    def read(self, folder: Path = FOLDER) -> bytes:
        """Return the content.

        Raises:
            DataError: the file is missing, cannot be decompressed, or has another
                hash; names the file, its folder and the expected sha256.
        """
        return self.read_at(folder / self.path)

    def read_at(self, path: Path) -> bytes:
        """Return the content of a copy of this file.

        Raises:
            DataError: see ``read``.
        """
        try:
            content = decompress(path.read_bytes(), path.suffix)
        except OSError as error:
            raise self._damage(path, error.strerror or str(error)) from error
        except (EOFError, zlib.error, lzma.LZMAError) as error:
            raise self._damage(path, f"not a whole {path.suffix} file") from error
        digest = hashlib.sha256(content).hexdigest()
        if digest != self.sha256:
            raise self._damage(path, f"its content has sha256 {digest}")
        return content

    def _damage(self, path: Path, problem: str) -> DataError:
        return DataError(
            f"data file {path.name} in {path.parent} must hold content with sha256 "
            f"{self.sha256}, but: {problem}.{self._remedy}"
        )

    @property
    def _remedy(self) -> str:
        return f" {REMEDY}"


def decompress(packed: bytes, suffix: str) -> bytes:
    """Return the content of a ``.gz`` or ``.xz`` file."""
    return gzip.decompress(packed) if suffix == ".gz" else lzma.decompress(packed)
