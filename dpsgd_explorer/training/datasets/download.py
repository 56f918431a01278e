"""Reads the files of a data set that is not in the package, and fetches them."""

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

ANSWER_SECONDS, SILENCE_SECONDS = 5.0, 20.0

log = logging.getLogger(__name__)


def read(
    data: FetchedSet, file: FetchedFile, sources: DataSources | None = None
) -> bytes:
    """Return the content of a file from the first place that has it.

    Args:
        data: The data set.
        file: One of its files.
        sources: Where files may be; as the environment says if None.

    Raises:
        DataError: no place has it, and it could not be downloaded or must not be;
            names the file, its folder and the sha256 that is wanted.
        MissingPackageError: it must be downloaded, and pooch is not installed.
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
        except (OSError, ValueError, DataError) as error:  # ValueError: other content
            problems.append(f"{urlsplit(url).netloc}: {_reason(error)}")
    raise data.absence(file, sources, problems)


def _reason(error: Exception) -> str:
    """Return in a few words why a download failed."""
    response = getattr(error, "response", None)
    if response is not None:
        return f"answered {response.status_code}"
    if isinstance(error, OSError):
        return error.strerror or "cannot be reached"
    return "sent a different file"


def _fetched(file: FetchedFile, url: str, place: Path) -> Path:
    """Download the file, check it, put it in its place; return the place.

    Raises:
        OSError: there is no answer, no room, or no right to write.
        ValueError: what came is another file.
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
        downloader=pooch.HTTPDownloader(timeout=(ANSWER_SECONDS, SILENCE_SECONDS)),
    )
    return place
