"""The settings of the site, for commands of the operator."""

from __future__ import annotations

from pathlib import Path

from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.settings import FILE, Settings


def settings_of_site() -> Settings:
    """Returns the settings of a site with a database; creates no files.

    Raises:
        ConfigError: a variable is wrong, or the SQLite file of the site is missing.
    """
    settings = Settings.from_environment(creates_folder=False)
    file = Path(settings.database_url.removeprefix(f"{FILE}/"))
    if settings.database_url.startswith(FILE) and not file.is_file():
        raise ConfigError(
            "DPSGD_INSTANCE_DIR",
            f"DPSGD_INSTANCE_DIR must be the folder of a site, got "
            f"{settings.instance_dir}: there is no database {file}. Run the command in "
            "the folder in which the site was started, or set DPSGD_INSTANCE_DIR.",
        )
    return settings
