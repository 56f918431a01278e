import gzip
import hashlib
import lzma

import pytest

from dpsgd_explorer.errors import DataError
from dpsgd_explorer.experiments.data_files.files import DataFile
from dpsgd_explorer.training.datasets import adult, mnist

CONTENT = b"a few bytes, " * 100
PACKERS = {".gz": gzip.compress, ".xz": lzma.compress}


def file_case(folder, suffix, content=CONTENT, stored=None):
    file = DataFile(f"set/records{suffix}", hashlib.sha256(content).hexdigest())
    (folder / "set").mkdir()
    packed = PACKERS[suffix](content) if stored is None else stored
    (folder / file.path).write_bytes(packed)
    return file


@pytest.mark.parametrize("suffix", PACKERS)
def test_a_file_gives_its_content(tmp_path, suffix):
    assert file_case(tmp_path, suffix).read(tmp_path) == CONTENT


@pytest.mark.parametrize("suffix", PACKERS)
@pytest.mark.parametrize(
    "damage",
    [
        lambda packed: packed[:-20],
        lambda packed: b"",
        lambda packed: b"not packed at all",
        lambda packed: packed[:30] + bytes([packed[30] ^ 1]) + packed[31:],
    ],
    ids=["cut", "empty", "foreign", "one bit"],
)
def test_a_damaged_file_is_named_with_folder_and_sha256(tmp_path, suffix, damage):
    file = file_case(tmp_path, suffix, stored=damage(PACKERS[suffix](CONTENT)))
    with pytest.raises(DataError) as refusal:
        file.read(tmp_path)
    for part in (f"records{suffix}", str(tmp_path / "set"), file.sha256):
        assert part in str(refusal.value)


def test_other_content_is_refused_and_its_sha256_told(tmp_path):
    other = b"other bytes"
    file = file_case(tmp_path, ".gz", stored=gzip.compress(other))
    with pytest.raises(DataError, match=hashlib.sha256(other).hexdigest()):
        file.read(tmp_path)


def test_a_missing_file_is_named_with_folder_and_sha256(tmp_path):
    file = DataFile("set/records.gz", "0" * 64)
    with pytest.raises(DataError) as refusal:
        file.read(tmp_path)
    for part in ("records.gz", str(tmp_path / "set"), "0" * 64, "No such file"):
        assert part in str(refusal.value)


@pytest.mark.parametrize("file", [*mnist.FILES, *adult.FILES], ids=lambda f: f.path)
def test_the_embedded_file_is_whole(file):
    assert hashlib.sha256(file.read()).hexdigest() == file.sha256
