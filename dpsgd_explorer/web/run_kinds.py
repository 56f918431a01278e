"""How each kind of run is shown: one line a kind."""

from __future__ import annotations

from dpsgd_explorer.web import engines_runs, regression_runs, training_runs
from dpsgd_explorer.web.run_view import RunView

VIEWS: dict[str, RunView] = {
    "training": training_runs.VIEW,
    "regression": regression_runs.VIEW,
    "engines": engines_runs.VIEW,
}
