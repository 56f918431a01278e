"""A worker looks for the GPU of its setting before it takes runs."""

import pytest
import torch

from dpsgd_explorer.cli.main import REFUSED, main
from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.runs.worker import device_check
from dpsgd_explorer.runs.worker.device_check import with_device
from dpsgd_explorer.runs.worker.process_pool import ProcessPool, can_fork, environment
from dpsgd_explorer.settings import Settings

NONE_LIKE_IT = "cuda:99"
STARTS_TORCH = pytest.mark.long("real runs")  # a process loads torch


@pytest.fixture
def settings(tmp_path):
    def configure(device):
        given = {"DPSGD_INSTANCE_DIR": str(tmp_path), "DPSGD_DEVICE": device}
        return Settings.from_environment(given)

    return configure


@pytest.mark.parametrize("device", ["gpu", "cuda:", "cuda:-1", "CPU", "", "cuda:0 "])
def test_only_devices_are_named(settings, device):
    with pytest.raises(ConfigError, match=r"^DPSGD_DEVICE must be cpu, auto, cuda or"):
        settings(device)


def test_for_the_cpu_no_process_looks(settings, monkeypatch):
    monkeypatch.setattr(device_check, "PROGRAM", ("-c", "raise SystemExit(3)"))
    assert with_device(settings("cpu")) == settings("cpu")
    with pytest.raises(ConfigError, match="the search ended with code 3"):
        with_device(settings("auto"))


@STARTS_TORCH
def test_automatic_becomes_the_device_that_there_is(settings):
    found = with_device(settings("auto"))
    assert found == settings("cuda" if torch.cuda.is_available() else "cpu")


@pytest.mark.parametrize(
    "command", ["worker", pytest.param("serve", marks=STARTS_TORCH)]
)
def test_without_the_gpu_nothing_starts(tmp_path, monkeypatch, capsys, command):
    monkeypatch.setenv("DPSGD_INSTANCE_DIR", str(tmp_path))
    monkeypatch.setenv("DPSGD_DEVICE", NONE_LIKE_IT)
    assert main([command]) == REFUSED
    said = capsys.readouterr().err
    assert f"must name a GPU that PyTorch can use, got {NONE_LIKE_IT}: " in said
    assert "DPSGD_RUN_MEMORY_MIB=4096" in said
    assert not list(tmp_path.glob("*.sqlite3"))


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_processes_are_forked_only_for_the_cpu(settings, device):
    pool = ProcessPool(settings(device), lease_s=10.0)
    pool.keep_warm(beside_runs=False)
    try:
        assert (pool._server is not None) == (device == "cpu" and can_fork())
    finally:
        pool.close()


def test_runs_on_the_cpu_see_no_gpu(settings, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2")
    name = "CUDA_VISIBLE_DEVICES"
    seen = {device: environment(settings(device))[name] for device in ("cpu", "cuda:1")}
    assert seen == {"cpu": "-1", "cuda:1": "2"}
