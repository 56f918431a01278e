"""The configurations of a site, on servers that all tests share."""

import contextlib
import os
import subprocess
from dataclasses import replace

import pytest

from dpsgd_explorer.runs.worker.forked_process import ForkServer
from dpsgd_explorer.web.http import assets
from tests.runs.faults.sites import REDIS, SQLITE, Site

DISK_BYTES, BLOCK_BYTES = 12 * 2**20, 4096
# A PostgreSQL whose disk is full, as its clients see it.
FULL = """
CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN RAISE disk_full; END $$;
CREATE TRIGGER full_disk BEFORE INSERT ON events EXECUTE FUNCTION full_disk();
CREATE TRIGGER full_disk BEFORE INSERT OR UPDATE ON runs EXECUTE FUNCTION full_disk()
"""
ROOM = "DROP FUNCTION full_disk CASCADE"


@pytest.fixture(autouse=True)
def _slow_runs(monkeypatch):
    """Let the runs that a test itself starts be those that its workers start."""
    program = ("-m", "tests.runs.faults.child_process")
    monkeypatch.setattr(ForkServer, "program", program)


@pytest.fixture
def site(request, settings, tmp_path):
    """A site without runs, whose processes end with the test."""
    chosen = settings
    if request.param == SQLITE and "fill" in request.fixturenames:
        file = request.getfixturevalue("small_disk") / "runs.sqlite3"
        chosen = replace(settings, database_url=f"sqlite:///{file}")
    elif request.param != SQLITE:
        url = request.getfixturevalue("postgresql_url")
        redis = request.param == REDIS and request.getfixturevalue("redis_server")
        queue = redis.url if redis else url
        chosen = replace(
            settings, database_url=url, queue_url=queue, takes_own_data=False
        )
    opened = Site(chosen, tmp_path)
    try:
        yield opened
    finally:
        opened.close()


@pytest.fixture
def small_disk(tmp_path):
    """A file system of a few megabytes, which only the superuser can make."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "none", folder]
    if os.getuid():
        pytest.skip("it takes the right to mount a file system.")
    subprocess.run(mount, check=True)
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)


@pytest.fixture
def fill(site, request):
    """Leave the database no room; the result makes room again."""

    def fill():
        if not site.store.database.is_embedded:
            postgresql = request.getfixturevalue("postgresql")
            postgresql.ask(FULL, "runs")
            return lambda: postgresql.ask(ROOM, "runs")
        ballast = request.getfixturevalue("small_disk") / "ballast"
        with ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):
            while file.write(bytes(BLOCK_BYTES)):
                pass
        return ballast.unlink

    return fill


@pytest.fixture(scope="session")
def published(tmp_path_factory):
    """A folder with the static files of the site: to compress them takes a while."""
    folder = tmp_path_factory.mktemp("published")
    assets.publish(assets.FRONT_DIR / "static", folder)
    return folder / "assets"


@pytest.fixture
def shelf(site, published):
    """Give the site's web server its static files."""
    (site.settings.instance_dir / "assets").symlink_to(published)
