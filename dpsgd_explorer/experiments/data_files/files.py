"""Reads data files; nothing unchecked gets through."""

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
    """A compressed file and what it must hold.

    Attributes:
        path: Below the data folder; ``.gz`` or ``.xz`` gives the compression.
        sha256: Of the content, that is, after decompression: the same data packed by
            another program still fits.
    """

    path: str
    sha256: str

    def read(self, folder: Path = FOLDER) -> bytes:
        """Return the content.

        Raises:
            DataError: the file is missing, cannot be decompressed, or holds other
                bytes; names the file, its folder and the sha256 that is wanted.
        """
        return self.read_at(folder / self.path)

    def read_at(self, place: Path) -> bytes:
        """Return the content of a copy of this file.

        Raises:
            DataError: as ``read``.
        """
        try:
            content = decompress(place.read_bytes(), place.suffix)
        except OSError as error:
            raise self._damage(place, error.strerror or str(error)) from error
        except (EOFError, zlib.error, lzma.LZMAError) as error:
            raise self._damage(place, f"not a whole {place.suffix} file") from error
        digest = hashlib.sha256(content).hexdigest()
        if digest != self.sha256:
            raise self._damage(place, f"its content has sha256 {digest}")
        return content

    def _damage(self, place: Path, what: str) -> DataError:
        return DataError(
            f"data file {place.name} in {place.parent} must hold content with sha256 "
            f"{self.sha256}, but: {what}.{self._remedy}"
        )

    @property
    def _remedy(self) -> str:
        return f" {REMEDY}"


def decompress(packed: bytes, suffix: str) -> bytes:
    """Return the content of a ``.gz`` or ``.xz`` file."""
    return gzip.decompress(packed) if suffix == ".gz" else lzma.decompress(packed)
