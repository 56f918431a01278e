"""Connection tests of a site's servers, before its processes start."""

from __future__ import annotations

from dpsgd_explorer.runs.doorbell import Doorbell
from dpsgd_explorer.runs.store.database import Database
from dpsgd_explorer.settings import Settings


def check_servers(settings: Settings) -> None:
    """Connects to the database and the queue once.

    Raises:
        ConfigError: One of them does not answer, or the tables have another version.
    """
    Database(settings.database_url).close()
    Doorbell(settings).huey.storage.close()
