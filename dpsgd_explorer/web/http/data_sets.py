"""Data sets that may be missing on the site's machine."""

from __future__ import annotations

from dpsgd_explorer.experiments.config import RunConfig
from dpsgd_explorer.experiments.data_files import sets
from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.web.http.own_tables import check_table
from dpsgd_explorer.web.http.services import settings

#: Data set that every installation has, and the slug of its preset.
STAND_IN = "adult"


def data_to_do() -> dict[str, str]:
    """Return a note for each missing data set: how to make it available."""
    sources = settings().data
    return {name: data.note(sources) for name, data in sets.absent(sources).items()}


def absent_labels() -> dict[str, str]:
    """Return the label with a short note for each missing data set."""
    sources = settings().data
    return {
        name: data.short_note(sources) for name, data in sets.absent(sources).items()
    }


def absent_default() -> str:
    """Return a note on the default data set, "" if it is not missing."""
    name: str = TrainingConfig.model_fields["dataset"].default
    data = sets.absent(settings().data).get(name)
    if data is None:
        return ""
    return f"The usual data set is {data.label}. {data.note(settings().data)}"


def check_data(config: RunConfig) -> None:
    """Reject a run whose records are unavailable.

    Raises:
        ConfigError: the run's table is not the visitor's, or its data set is missing
            and cannot be downloaded.
    """
    check_table(config)
    sets.check_data(config.data_set_name, settings().data)
