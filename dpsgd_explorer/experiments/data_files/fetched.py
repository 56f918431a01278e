"""Data sets whose files are not in the package: where a machine may have them.

A file is looked for in the package's folder, then in the folder that is chosen for such
files, in the user's cache, and where a package of the system puts it.  Its content is
checked wherever it lies; the same data packed by another program still fits.
``training.datasets.download`` fetches what is nowhere.
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
#: Name for people of a data set that every installation has.
ALWAYS_HERE = DATA_SETS["adult"].label


@dataclass(frozen=True)
class FetchedFile(DataFile):
    """A file that is not in the package.

    Attributes:
        packed_sha256: Of the file as it is published.
        size: Of the same, in bytes.
        urls: Where it is published, the first choice first.
        system_folder: Folder of a package of the system; None if no package has it.
    """

    packed_sha256: str
    size: int
    urls: tuple[str, ...]
    system_folder: Path | None = None

    def places(self, sources: DataSources) -> list[Path]:
        """Return the paths at which the file may be, in the order of the search."""
        roots = [FOLDER, sources.data_dir, user_cache()]
        own = [root / self.path for root in roots if root is not None]
        if self.system_folder is None:
            return own
        return [*own, self.system_folder / own[0].name]

    def is_here(self, sources: DataSources) -> bool:
        """Whether the machine has the file; its content is checked when it is read."""
        return any(place.is_file() for place in self.places(sources))

    @property
    def _remedy(self) -> str:
        return ""


@dataclass(frozen=True)
class FetchedSet:
    """A data set whose files are not in the package.

    Attributes:
        name: Key of the catalogue's data sets.
        label: Name for people.
        files: Its files.
        package: Package of the system that has the files, and the system; "" if there
            is none.
    """

    name: str
    label: str
    files: tuple[FetchedFile, ...]
    package: str = ""

    def missing(self, sources: DataSources) -> list[FetchedFile]:
        """Return the files that the machine does not have."""
        return [file for file in self.files if not file.is_here(sources)]

    @property
    def megabytes(self) -> float:
        """Size of all files together, as they are published."""
        return sum(file.size for file in self.files) / MEGABYTE

    @property
    def command(self) -> str:
        """Command that downloads the data set."""
        return f"dpsgd data fetch {self.name}"

    def note(self, sources: DataSources) -> str:
        """Return what has to be done before a run can use it."""
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
        """Return the label with the same in brief."""
        where = "not here" if sources.is_offline else f"{self.megabytes:.0f} MB to load"
        return f"{self.label} ({where})"

    def absence(
        self, file: FetchedFile, sources: DataSources, problems: Sequence[str]
    ) -> DataError:
        """Return the error that a file of it is nowhere to be had.

        Args:
            file: The file.
            sources: Where it was looked for.
            problems: What went wrong with copies and downloads of it.
        """
        place = target(file, sources)
        tried = [*problems]
        if sources.is_offline:
            tried.append("DPSGD_OFFLINE=1 forbids downloads")
        how = "without DPSGD_OFFLINE" if sources.is_offline else "when online"
        return DataError(
            f"{self.label} needs the data file {place.name}, which this machine does "
            f"not have: {'; '.join(tried)}. Run `{self.command}` {how}"
            f"{self._or_install}, or put the file into {place.parent} (its "
            f"content has sha256 {file.sha256}). {ALWAYS_HERE} can be used now."
        )


def target(file: FetchedFile, sources: DataSources) -> Path:
    """Return where a download of the file is put."""
    return (sources.data_dir or user_cache()) / file.path
