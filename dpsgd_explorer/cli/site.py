"""The site that a command of the operator is about."""

from __future__ import annotations

from pathlib import Path

from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.settings import Settings


def settings_of_site() -> Settings:
    """Return the settings of a site that has a database; create nothing.

    Raises:
        ConfigError: a variable is wrong, or the SQLite file of the site is missing.
    """
    # Here: every command builds this command's parser, and most need no SQLAlchemy.
    from sqlalchemy.engine import make_url

    from dpsgd_explorer.runs.database.address import SQLITE, kind_of

    settings = Settings.from_environment(creates_folder=False)
    if kind_of(settings.database_url) != SQLITE:
        return settings
    file = Path(make_url(settings.database_url).database or "")
    if not file.is_file():
        raise ConfigError(
            "DPSGD_INSTANCE_DIR",
            f"DPSGD_INSTANCE_DIR must be the folder of a site, got "
            f"{settings.instance_dir}: there is no database {file}. Run the command in "
            "the folder in which the site was started, or set DPSGD_INSTANCE_DIR.",
        )
    return settings
