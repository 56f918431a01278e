"""Addresses name their kind, and never their password."""

from dataclasses import replace

import pytest

from dpsgd_explorer.cli.main import main
from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.runs.database.address import kind_of, shown
from dpsgd_explorer.runs.doorbell import Doorbell
from dpsgd_explorer.runs.store.store import RunStore
from dpsgd_explorer.settings import Settings
from tests.ports import free_port

PASSWORD = "p4ss:w/rd@"


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        ("sqlite:////var/runs.sqlite3", "sqlite"),
        ("postgresql+psycopg://db/runs", "postgresql"),
        ("postgresql://db/runs", "postgresql"),
        ("redis://cache:6379/0", "redis"),
        ("rediss://cache", "redis"),
        ("mysql://db/runs", ""),
        ("postgresql", ""),
        ("", ""),
    ],
)
def test_the_kind_of_an_address(url, kind):
    assert kind_of(url) == kind


@pytest.mark.parametrize(
    "url",
    [
        "postgresql+psycopg://ann:secret@db:5432/runs",
        "redis://:secret@cache/0",
        "postgresql://ann:secret@db:no-port/runs",
        "postgresql://ann:secret@db:no-port/runs?password=secret",
        "postgresql+psycopg://ann@db/runs?password=secret&sslmode=require",
        "postgresql+psycopg://ann@db/runs?sslpassword=secret&passfile=/secret",
        "rediss://ann@cache/0?password=secret",
    ],
)
def test_a_password_is_never_shown(url):
    assert "secret" not in shown(url)
    assert "@" in shown(url)


def test_arguments_that_are_no_secret_are_shown():
    url = "postgresql+psycopg://ann@db/runs?sslmode=require&host=/run/postgresql"
    assert "sslmode=require" in shown(url)
    assert "host=%2Frun%2Fpostgresql" in shown(url)


PAIR = "DPSGD_DATABASE_URL", "DPSGD_QUEUE_URL"
FILE, SERVER, REDIS = "sqlite:////x/y", "postgresql+psycopg://a:b@db/r", "redis://c"


@pytest.mark.parametrize(
    ("database", "queue"), [("", REDIS), (FILE, SERVER), (SERVER, FILE)]
)
def test_a_file_beside_a_server_is_refused_with_the_reason(
    tmp_path, monkeypatch, capsys, database, queue
):
    """Two machines would each have files of their own."""
    monkeypatch.setenv("DPSGD_INSTANCE_DIR", str(tmp_path))
    for name, value in zip(PAIR, (database, queue), strict=True):
        monkeypatch.setenv(name, value)
    assert main(["serve"]) == 2
    assert "workers on other machines would" in capsys.readouterr().err


def test_a_queue_is_beside_the_runs_unless_it_is_set(tmp_path):
    here = {"DPSGD_INSTANCE_DIR": str(tmp_path)}
    settings = Settings.from_environment(here | {PAIR[0]: SERVER})
    assert settings.queue_url == SERVER
    settings = Settings.from_environment(here | {PAIR[0]: SERVER, PAIR[1]: REDIS})
    assert (settings.database_url, settings.queue_url) == (SERVER, REDIS)
    assert Settings.from_environment(here).queue_url.startswith("sqlite:///")


@pytest.mark.parametrize("scheme", ["postgresql+psycopg", "redis"])
def test_a_queue_that_does_not_answer_is_named_without_its_password(settings, scheme):
    url = f"{scheme}://ann:secret@127.0.0.1:{free_port()}/0"
    with pytest.raises(ConfigError, match="cannot be reached") as refused:
        Doorbell(replace(settings, queue_url=url))
    assert refused.value.field == "DPSGD_QUEUE_URL"
    assert "secret" not in str(refused.value)
    assert "127.0.0.1" in str(refused.value)


def test_a_database_that_does_not_answer_is_named_without_its_password(monkeypatch):
    monkeypatch.setattr("dpsgd_explorer.runs.store.database.OPEN_SECONDS", 0.1)
    url = f"postgresql+psycopg://ann:secret@127.0.0.1:{free_port()}/runs"
    with pytest.raises(ConfigError, match=r"reached, tried for .* refused") as error:
        RunStore(url, outage_s=0)
    assert error.value.field == "DPSGD_DATABASE_URL"
    assert "secret" not in str(error.value)
