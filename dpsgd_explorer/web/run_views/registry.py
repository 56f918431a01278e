"""Views of runs, by the name of the kind."""

from __future__ import annotations

from dpsgd_explorer.experiments.kinds import KINDS, loaded
from dpsgd_explorer.web.run_views.base import RunView

#: Filled by ``create_app``.
VIEWS: dict[str, RunView] = {}


def register_views() -> None:
    """Loads the view of each kind."""
    VIEWS.update({name: loaded(kind.view) for name, kind in KINDS.items()})
