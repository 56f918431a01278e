"""Other users of the machine cannot read what visitors do."""

import os
import stat

import pytest

from dpsgd_explorer.runs.doorbell import Doorbell
from dpsgd_explorer.runs.store.store import RunStore
from dpsgd_explorer.settings import Settings


@pytest.mark.parametrize("made_before", [False, True])
def test_databases_can_be_read_by_their_owner_only(tmp_path, config, made_before):
    folder = tmp_path / "instance"
    settings = Settings.from_environment({"DPSGD_INSTANCE_DIR": str(folder)})
    assert stat.S_IMODE(folder.stat().st_mode) & 0o077 == 0
    names = "runs.sqlite3", "queue.sqlite3"
    before = os.umask(0)
    try:
        if made_before:
            for name in names:
                (folder / name).touch(0o644)
        store, doorbell = RunStore.from_settings(settings), Doorbell(settings)
        doorbell.ring(store.create(config, visitor="ann").id)
        modes = {
            file.name: stat.S_IMODE(file.stat().st_mode)
            for file in folder.glob("*.sqlite3*")
            if not file.name.endswith(".reserve")
        }
    finally:
        os.umask(before)
    assert {"runs.sqlite3", "runs.sqlite3-wal", "queue.sqlite3"} <= set(modes)
    assert set(modes.values()) == {0o600}
    store.database.close()
    doorbell.huey.storage.close()
