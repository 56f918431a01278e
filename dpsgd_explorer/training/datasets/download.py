"""Reads the files of data sets that are not in the package, and downloads them."""

from __future__ import annotations

import logging
from pathlib import Path
from urllib.parse import urlsplit

from dpsgd_explorer import extras
from dpsgd_explorer.errors import DataError
from dpsgd_explorer.experiments.data_files.fetched import (
    FetchedFile,
    FetchedSet,
    target,
)
from dpsgd_explorer.settings import DataSources

#: Timeouts of a download: to connect, and between two packets.
TIMEOUT_SECONDS = (5.0, 20.0)

log = logging.getLogger(__name__)


def read(
    data: FetchedSet, file: FetchedFile, sources: DataSources | None = None
) -> bytes:
    """Returns the content of a file, from the first folder or server that has the file.

    Args:
        data: The data set.
        file: A file of the data set.
        sources: Folders that may contain the file, and whether downloads are allowed;
            if None, the settings of the environment.

    Raises:
        DataError: no folder has the file, and it could not or must not be downloaded;
            the message names the file, the folder and the required sha256.
        MissingPackageError: the file must be downloaded, and pooch is not installed.
    """
    sources = DataSources.from_environment() if sources is None else sources
    problems = []
    for place in file.places(sources):
        if place.is_file():
            try:
                return file.read_at(place)
            except DataError as error:
                problems.append(str(error).rstrip("."))
    if sources.is_offline:
        raise data.absence(file, sources, problems)
    for url in file.urls:
        try:
            return file.read_at(_fetched(file, url, target(file, sources)))
        # pooch raises ValueError if the sha256 is wrong.
        except (OSError, ValueError, DataError) as error:
            problems.append(f"{urlsplit(url).netloc}: {_reason(error)}")
    raise data.absence(file, sources, problems)


def _reason(error: Exception) -> str:
    """Returns the reason why a download failed, in a few words."""
    response = getattr(error, "response", None)
    if response is not None:
        return f"answered {response.status_code}"
    if isinstance(error, OSError):
        return error.strerror or "cannot be reached"
    return "sent a different file"


def _fetched(file: FetchedFile, url: str, place: Path) -> Path:
    """Downloads a file to a path, checks its sha256, and returns the path.

    Raises:
        OSError: the server does not answer, the disk is full, or the folder is not
            writable.
        ValueError: the server sent a file with another sha256.
        MissingPackageError: pooch is not installed.
    """
    extras.require("Downloading a data set", "pooch")
    import pooch

    log.info("downloading %s, %.1f MB", url, file.size / 1e6)
    place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    pooch.get_logger().setLevel(logging.WARNING)
    pooch.retrieve(
        url,
        known_hash=f"sha256:{file.packed_sha256}",
        fname=place.name,
        path=place.parent,
        downloader=pooch.HTTPDownloader(timeout=TIMEOUT_SECONDS),
    )
    return place
