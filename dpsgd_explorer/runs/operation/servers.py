"""The servers of a site, tried before its processes start."""

from __future__ import annotations

from dpsgd_explorer.runs.doorbell import Doorbell
from dpsgd_explorer.runs.store.database import Database
from dpsgd_explorer.settings import Settings


def check_servers(settings: Settings) -> None:
    """Do nothing if database and queue answer.

    Raises:
        ConfigError: it says which does not, or what its tables lack.
    """
    Database(settings.database_url).close()
    Doorbell(settings).huey.storage.close()
