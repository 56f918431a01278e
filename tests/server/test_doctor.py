"""What the doctor says of installations that are well, and of those that are not."""

import json
from pathlib import Path

import pytest

from dpsgd_explorer.cli.main import main
from dpsgd_explorer.runs.doorbell import Doorbell
from dpsgd_explorer.runs.operation.workers import WorkerSign
from dpsgd_explorer.runs.store.store import RunStore
from dpsgd_explorer.server import doctor, front
from dpsgd_explorer.settings import Settings
from dpsgd_explorer.web.http.visitor import KEY_FILE, make_signer

STRONG = "k7Zp-2vQx9_LmN4tR8wAb3"
PUBLIC = {"DPSGD_PROFILE": "public"}
UNSET = ("DPSGD_METRICS_TOKEN", "FLASK_DEBUG", "DPSGD_PROFILE")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The folder of an installation; the environment of this process leads to it."""
    for name in UNSET:
        monkeypatch.delenv(name, raising=False)
    folder = tmp_path / "instance"
    monkeypatch.setenv("DPSGD_INSTANCE_DIR", str(folder))
    return folder


@pytest.fixture
def running(folder):
    """The files of a site that runs, with the sign of a worker."""
    settings = Settings.from_environment()
    store = RunStore.from_settings(settings)
    Doorbell(settings).huey.storage.close()
    make_signer(folder)
    WorkerSign(store.database, 1, clock=store.clock).tend(0)
    yield store
    store.database.close()


def examined(capsys):
    """Run the command; its exit code, and what it says by part."""
    code = main(["doctor", "--json"])
    lines = capsys.readouterr().out.splitlines()
    return code, {line["part"]: line for line in map(json.loads, lines)}


def test_a_site_that_runs_is_well(running, capsys):
    code, found = examined(capsys)
    assert {part for part, one in found.items() if one["level"] == "fault"} == set()
    assert code == 0
    assert {"database", "schema", "queue", "worker", "torch", "disk"} <= set(found)
    assert found["database"]["says"].startswith("sqlite: ")
    assert found["worker"]["says"].startswith("1 seen")
    assert found["cookie key"]["says"].endswith("readable only by its owner")


def test_what_does_not_exist_yet_is_not_made(folder, capsys):
    code, found = examined(capsys)
    assert code == 0
    assert "the first start will create" in found["database"]["says"]
    assert list(folder.iterdir()) == []


def test_text_has_a_line_per_finding(running, capsys):
    assert main(["doctor"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("ok       database") for line in lines)


def open_the_key(folder, store, monkeypatch):
    (folder / KEY_FILE).chmod(0o644)


def cut_the_key(folder, store, monkeypatch):
    (folder / KEY_FILE).write_bytes(b"short")


def debug(folder, store, monkeypatch):
    monkeypatch.setenv("FLASK_DEBUG", "1")


def fill_the_disk(folder, store, monkeypatch):
    monkeypatch.setattr(doctor, "FULL_BYTES", 2**80)


def overwrite_the_runs(folder, store, monkeypatch):
    store.database.close()
    (folder / "runs.sqlite3").write_bytes(b"no database" * 1000)


def age_torch(folder, store, monkeypatch):
    monkeypatch.setattr(doctor, "MIN_TORCH_VERSION", (999, 0))


def expose(folder, store, monkeypatch):
    monkeypatch.setenv("HOST", "0.0.0.0")


def lose_nginx(folder, store, monkeypatch):
    monkeypatch.setenv("DPSGD_FRONT", "nginx")
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setattr(front, "SYSTEM_FOLDERS", str(folder))


def mistype(folder, store, monkeypatch):
    monkeypatch.setenv("DPSGD_PROFILE", "pubic")


@pytest.mark.parametrize(
    ("harm", "part"),
    [
        (open_the_key, "cookie key"),
        (cut_the_key, "cookie key"),
        (debug, "debug"),
        (fill_the_disk, "disk"),
        (overwrite_the_runs, "database"),
        (age_torch, "torch"),
        (mistype, "settings"),
        (expose, "settings"),
        (lose_nginx, "address"),
    ],
    ids=lambda one: getattr(one, "__name__", ""),
)
def test_a_fault_is_named_and_is_the_exit_code(
    running, folder, monkeypatch, capsys, harm, part
):
    harm(folder, running, monkeypatch)
    code, found = examined(capsys)
    faults = [name for name, one in found.items() if one["level"] == "fault"]
    assert (code, faults) == (1, [part])


def test_a_site_without_a_worker_has_a_fault(running, capsys):
    with running.database.write() as connection:
        connection.exec_driver_sql("DELETE FROM workers")
    code, found = examined(capsys)
    assert (code, found["worker"]["level"]) == (1, "fault")


@pytest.mark.parametrize(
    ("variables", "part"),
    [
        ({"DPSGD_METRICS_TOKEN": "a" * 40}, "metrics token"),
        ({"DPSGD_METRICS_TOKEN": STRONG[:16]}, "metrics token"),
        ({"HOST": "0.0.0.0", "DPSGD_ALLOW_DIRECT": "1"}, "address"),
        (PUBLIC | {"HOST": "0.0.0.0", "DPSGD_ALLOW_DIRECT": "1"}, "address"),
        ({"DPSGD_PROFILE": "public"}, "proxy"),
        ({"DPSGD_PROFILE": "public", "DPSGD_RETENTION_DAYS": "none"}, "retention"),
        ({"DPSGD_WORKERS": "100000"}, "workers"),
        ({"DPSGD_SECRET_KEY": "a" * 40}, "cookie key"),
    ],
    ids=str,
)
def test_what_is_unwise_is_a_warning(running, monkeypatch, capsys, variables, part):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    code, found = examined(capsys)
    assert (code, found[part]["level"]) == (0, "warning")
    assert variables.get("DPSGD_METRICS_TOKEN", "(none)") not in str(found)


def test_a_strong_token_is_well_and_is_not_printed(running, monkeypatch, capsys):
    monkeypatch.setenv("DPSGD_METRICS_TOKEN", STRONG)
    _, found = examined(capsys)
    assert found["metrics token"] == {
        "part": "metrics token",
        "level": "ok",
        "says": "22 characters",
    }


def test_others_who_can_enter_the_folder_are_a_warning(running, folder, capsys):
    Path(folder).chmod(0o755)
    code, found = examined(capsys)
    assert (code, found["instance folder"]["level"]) == (0, "warning")


def test_a_library_that_is_not_compiled_is_a_warning(
    running, tmp_path, monkeypatch, capsys
):
    sources = [source.name for source in doctor.KERNELS.glob("*.c")]
    assert sources
    for name in sources:
        (tmp_path / name).touch()
    monkeypatch.setattr(doctor, "KERNELS", tmp_path)
    code, found = examined(capsys)
    assert (code, found["kernels"]["level"]) == (0, "warning")
    assert "box_muller" in found["kernels"]["says"]
    assert "Install a C compiler and reinstall" in found["kernels"]["says"]
