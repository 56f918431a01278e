"""Data sets whose files are not in the package, and the folders that may have them.

The search covers the package's folder, the configured data folder, the user's cache
and the folder of an operating system package, in this order.  The hash of the content
is checked in every folder; a copy compressed by another program is valid too.
``training.datasets.download`` downloads missing files.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dpsgd_explorer.errors import DataError
from dpsgd_explorer.experiments.catalogue import DATA_SETS
from dpsgd_explorer.experiments.data_files.files import FOLDER, DataFile
from dpsgd_explorer.settings import DataSources, user_cache

MEGABYTE = 1e6
#: Label of a data set that every installation has.
ALWAYS_HERE = DATA_SETS["adult"].label


@dataclass(frozen=True)
class FetchedFile(DataFile):
    """A file that is not in the package.

    Attributes:
        packed_sha256: Hash of the published, compressed file.
        size: Size of the published file, in bytes.
        urls: Addresses of the file, in the order of preference.
        system_folder: Folder of the operating system's package; None without package.
    """

    packed_sha256: str
    size: int
    urls: tuple[str, ...]
    system_folder: Path | None = None

    def places(self, sources: DataSources) -> list[Path]:
        """Return the possible paths of the file, in the order of the search."""
        roots = [FOLDER, sources.data_dir, user_cache()]
        paths = [root / self.path for root in roots if root is not None]
        if self.system_folder is None:
            return paths
        return [*paths, self.system_folder / paths[0].name]

    def is_here(self, sources: DataSources) -> bool:
        """Return whether the file exists; reading it checks its content."""
        return any(path.is_file() for path in self.places(sources))

    @property
    def _remedy(self) -> str:
        return ""


@dataclass(frozen=True)
class FetchedSet:
    """A data set whose files are not in the package.

    Attributes:
        name: Key of the catalogue's data sets.
        label: Display name.
        files: Files of the data set.
        package: Package of the operating system with the files, and the name of the
            system; "" without package.
    """

    name: str
    label: str
    files: tuple[FetchedFile, ...]
    package: str = ""

    def missing(self, sources: DataSources) -> list[FetchedFile]:
        """Return the files that are missing on this machine."""
        return [file for file in self.files if not file.is_here(sources)]

    @property
    def megabytes(self) -> float:
        """Size of all published files together, in MB."""
        return sum(file.size for file in self.files) / MEGABYTE

    @property
    def command(self) -> str:
        """Command that downloads the data set."""
        return f"dpsgd data fetch {self.name}"

    def note(self, sources: DataSources) -> str:
        """Return the step that is needed before a run can use the data set."""
        if sources.is_offline:
            return (
                "It is not on this machine, and nothing is downloaded here. The site's "
                f"operator can run `{self.command}` without DPSGD_OFFLINE"
                f"{self._or_install}, or follow docs/reference/configuration.md. "
                f"{ALWAYS_HERE} can be used now."
            )
        return (
            "It is not on this machine yet: the first run that uses it downloads "
            f"{self.megabytes:.0f} MB."
        )

    @property
    def _or_install(self) -> str:
        return f", install {self.package}" if self.package else ""

    def short_note(self, sources: DataSources) -> str:
        """Return the label with a short form of the note."""
        where = "not here" if sources.is_offline else f"{self.megabytes:.0f} MB to load"
        return f"{self.label} ({where})"

    def absence(
        self, file: FetchedFile, sources: DataSources, problems: Sequence[str]
    ) -> DataError:
        """Return the error for a file that is missing and cannot be downloaded.

        Args:
            file: The missing file.
            sources: Folders that were searched.
            problems: Problems of the copies and downloads that were tried.
        """
        path = target(file, sources)
        reasons = [*problems]
        if sources.is_offline:
            reasons.append("DPSGD_OFFLINE=1 forbids downloads")
        how = "without DPSGD_OFFLINE" if sources.is_offline else "when online"
        return DataError(
            f"{self.label} needs the data file {path.name}, which this machine does "
            f"not have: {'; '.join(reasons)}. Run `{self.command}` {how}"
            f"{self._or_install}, or put the file into {path.parent} (its "
            f"content has sha256 {file.sha256}). {ALWAYS_HERE} can be used now."
        )


def target(file: FetchedFile, sources: DataSources) -> Path:
    """Return the path to which a download of the file is written."""
    return (sources.data_dir or user_cache()) / file.path
