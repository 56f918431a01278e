"""The data sets whose files are not in the package."""

from __future__ import annotations

from pathlib import Path

from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.experiments.data_files.fetched import FetchedFile, FetchedSet
from dpsgd_explorer.settings import DataSources

ZALANDO = (
    "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
    "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
)
DEBIAN = Path("/usr/share/datasets/fashion-mnist")


def _file(name: str, sha256: str, packed_sha256: str, size: int) -> FetchedFile:
    return FetchedFile(
        f"fashion-mnist/{name}",
        sha256,
        packed_sha256,
        size,
        tuple(url + name for url in ZALANDO),
        DEBIAN,
    )


FASHION_MNIST = FetchedSet(
    label="Fashion-MNIST",
    files=(
        _file(
            "train-images-idx3-ubyte.gz",
            "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
            "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
            26_421_880,
        ),
        _file(
            "train-labels-idx1-ubyte.gz",
            "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
            "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
            29_515,
        ),
        _file(
            "t10k-images-idx3-ubyte.gz",
            "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
            "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
            4_422_102,
        ),
        _file(
            "t10k-labels-idx1-ubyte.gz",
            "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
            "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
            5_148,
        ),
    ),
    package="the Debian package dataset-fashion-mnist",
    instead="MNIST digits",
)
FETCHED: dict[str, FetchedSet] = {"fashion_mnist": FASHION_MNIST}


def absent(sources: DataSources) -> dict[str, FetchedSet]:
    """Return the data sets of which the machine lacks a file."""
    return {name: of for name, of in FETCHED.items() if of.missing(sources)}


def check_data(dataset: str, sources: DataSources) -> None:
    """Refuse a data set that is not on the machine and may not be fetched.

    Raises:
        ConfigError: it is so; names the file, folder, sha256 and what can be used.
    """
    if dataset not in FETCHED or not sources.is_offline:
        return
    for file in FETCHED[dataset].missing(sources):
        absence = FETCHED[dataset].absence(file, sources, [])
        raise ConfigError("dataset", f"dataset: {absence}")
