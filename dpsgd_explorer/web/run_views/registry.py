"""How each kind of run is shown: ``create_app`` registers the views."""

from __future__ import annotations

from dpsgd_explorer.experiments.kinds import KINDS
from dpsgd_explorer.web.run_views.base import RunView

#: By the name of the kind.
VIEWS: dict[str, RunView] = {}


def register(*views: RunView) -> None:
    """Register the view of each kind of run.

    Raises:
        LookupError: a kind has no view.
    """
    VIEWS.update({view.kind.name: view for view in views})
    if missing := KINDS.keys() - VIEWS.keys():
        raise LookupError(
            f"each kind of run must have a view, and {', '.join(sorted(missing))} has "
            "none. Register it in dpsgd_explorer/web/__init__.py."
        )
