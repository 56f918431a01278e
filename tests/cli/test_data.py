"""Downloading a data set ahead, from a server of the test's own."""

import hashlib
from dataclasses import replace

import pytest
import torch

from dpsgd_explorer.cli.main import main
from dpsgd_explorer.experiments.data_files import fetched, sets
from dpsgd_explorer.experiments.data_files.files import FOLDER
from dpsgd_explorer.training.datasets import mnist
from tests.training.datasets.test_download import serving


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """A machine on which the package's data folder does not contain MNIST."""
    monkeypatch.setattr(fetched, "FOLDER", tmp_path / "package")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.delenv("DPSGD_DATA_DIR", raising=False)
    monkeypatch.delenv("DPSGD_OFFLINE", raising=False)
    return tmp_path


@pytest.fixture
def mirrored(monkeypatch):
    """A mirror of MNIST's published files; yields what it was asked for."""
    answers = {f"/{file.path}": (FOLDER / file.path).read_bytes() for file in FILES}
    with serving(answers) as (url, asked):
        files = [replace(file, urls=(f"{url}/{file.path}",)) for file in FILES]
        monkeypatch.setitem(
            sets.FETCHED, "mnist", replace(sets.MNIST, files=tuple(files))
        )
        yield asked


FILES = sets.MNIST.files


def test_mnist_is_downloaded_once_and_is_the_data_of_a_checkout(
    installed, mirrored, capsys
):
    assert main(["data", "fetch", "mnist"]) == 0
    folder = installed / "cache" / "dpsgd-explorer" / "mnist"
    assert capsys.readouterr().out == f"MNIST digits: downloaded 4 files to {folder}.\n"
    assert main(["data", "fetch", "mnist"]) == 0
    assert capsys.readouterr().out == "MNIST digits: all 4 files are on this machine.\n"
    assert sorted(mirrored) == sorted(f"/{file.path}" for file in FILES)
    contents = [file.read_at(FOLDER / file.path) for file in FILES]
    readers = (mnist.pictures, mnist.labels) * 2
    for loaded, read, content in zip(mnist.load(), readers, contents, strict=True):
        assert torch.equal(loaded, read(content))


def test_a_folder_can_be_chosen(installed, mirrored, monkeypatch, capsys):
    monkeypatch.setenv("DPSGD_DATA_DIR", "")  # which main sets
    assert main(["data", "fetch", "mnist", "--data", str(installed / "mine")]) == 0
    names = sorted(path.name for path in (installed / "mine" / "mnist").iterdir())
    assert names == sorted(file.path.split("/")[1] for file in FILES)


def test_offline_nothing_is_downloaded_and_the_command_is_named(
    installed, mirrored, monkeypatch, capsys
):
    monkeypatch.setenv("DPSGD_OFFLINE", "1")
    assert main(["data", "fetch", "mnist"]) == 1
    assert "Run `dpsgd data fetch mnist` without DPSGD_OFFLINE" in (
        capsys.readouterr().err
    )
    assert mirrored == []


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.path)
def test_a_file_of_the_checkout_is_the_published_one_byte_for_byte(file):
    packed = (FOLDER / file.path).read_bytes()
    assert len(packed) == file.size
    assert hashlib.sha256(packed).hexdigest() == file.packed_sha256
