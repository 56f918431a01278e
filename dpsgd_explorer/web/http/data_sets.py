"""Data sets that may not be on the site's machine."""

from __future__ import annotations

from dpsgd_explorer.experiments.config import RunConfig
from dpsgd_explorer.experiments.data_files import sets
from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.web.http.own_tables import check_table
from dpsgd_explorer.web.http.services import settings

#: A data set that every installation has, and the slug of its preset.
STAND_IN = "adult"


def data_to_do() -> dict[str, str]:
    """Return what has to be done about each data set that is not on the machine."""
    sources = settings().data
    return {name: of.note(sources) for name, of in sets.absent(sources).items()}


def absent_labels() -> dict[str, str]:
    """Return the labels of the data sets that are not on the machine."""
    sources = settings().data
    return {name: of.short_note(sources) for name, of in sets.absent(sources).items()}


def absent_default() -> str:
    """Return what has to be done about the default data set, "" if it is here."""
    name: str = TrainingConfig.model_fields["dataset"].default
    of = sets.absent(settings().data).get(name)
    if of is None:
        return ""
    return f"The usual data set is {of.label}. {of.note(settings().data)}"


def check_data(config: RunConfig) -> None:
    """Refuse a run whose records are not to be had.

    Raises:
        ConfigError: its table is not its visitor's, or its data set is not on the
            machine and must not be fetched.
    """
    check_table(config)
    sets.check_data(config.data_set_name, settings().data)
