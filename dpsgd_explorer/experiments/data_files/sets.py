"""The data sets whose files are not in the package."""

from __future__ import annotations

from pathlib import Path

from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.experiments.catalogue import DATA_SETS
from dpsgd_explorer.experiments.data_files.fetched import FetchedFile, FetchedSet
from dpsgd_explorer.settings import DataSources

ZALANDO = (
    "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
    "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
)
DEBIAN = Path("/usr/share/datasets/fashion-mnist")
#: Mirrors of yann.lecun.com, which no longer serves the files; the loaders of
#: TensorFlow and torchvision read them too.
MNIST_MIRRORS = (
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
)


def _fashion(name: str, sha256: str, packed_sha256: str, size: int) -> FetchedFile:
    urls = tuple(url + name for url in ZALANDO)
    path = f"fashion-mnist/{name}"
    return FetchedFile(path, sha256, packed_sha256, size, urls, DEBIAN)


def _digits(name: str, sha256: str, packed_sha256: str, size: int) -> FetchedFile:
    urls = tuple(url + name for url in MNIST_MIRRORS)
    return FetchedFile(f"mnist/{name}", sha256, packed_sha256, size, urls)


#: A checkout and the container have these files; the wheel does not.
MNIST = FetchedSet(
    name="mnist",
    label=DATA_SETS["mnist"].label,
    files=(
        _digits(
            "train-images-idx3-ubyte.gz",
            "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
            "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
            9_912_422,
        ),
        _digits(
            "train-labels-idx1-ubyte.gz",
            "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
            "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
            28_881,
        ),
        _digits(
            "t10k-images-idx3-ubyte.gz",
            "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
            "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
            1_648_877,
        ),
        _digits(
            "t10k-labels-idx1-ubyte.gz",
            "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
            "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
            4_542,
        ),
    ),
)
FASHION_MNIST = FetchedSet(
    name="fashion_mnist",
    label=DATA_SETS["fashion_mnist"].label,
    files=(
        _fashion(
            "train-images-idx3-ubyte.gz",
            "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
            "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
            26_421_880,
        ),
        _fashion(
            "train-labels-idx1-ubyte.gz",
            "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
            "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
            29_515,
        ),
        _fashion(
            "t10k-images-idx3-ubyte.gz",
            "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
            "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
            4_422_102,
        ),
        _fashion(
            "t10k-labels-idx1-ubyte.gz",
            "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
            "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
            5_148,
        ),
    ),
    package="the Debian package dataset-fashion-mnist",
)
FETCHED: dict[str, FetchedSet] = {data.name: data for data in (MNIST, FASHION_MNIST)}


def absent(sources: DataSources) -> dict[str, FetchedSet]:
    """Return the data sets with a file that is missing on this machine."""
    return {name: data for name, data in FETCHED.items() if data.missing(sources)}


def check_data(dataset: str, sources: DataSources) -> None:
    """Reject a data set that is missing and cannot be downloaded.

    Raises:
        ConfigError: names the file, its folder, its sha256 and a usable data set.
    """
    if dataset not in FETCHED or not sources.is_offline:
        return
    for file in FETCHED[dataset].missing(sources):
        absence = FETCHED[dataset].absence(file, sources, [])
        raise ConfigError("dataset", f"dataset: {absence}")
