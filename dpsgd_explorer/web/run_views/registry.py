"""How each kind of run is shown: one line a kind."""

from __future__ import annotations

from dpsgd_explorer.web.run_views import engines as engines_runs
from dpsgd_explorer.web.run_views import regression as regression_runs
from dpsgd_explorer.web.run_views import training as training_runs
from dpsgd_explorer.web.run_views.base import RunView

VIEWS: dict[str, RunView] = {
    "training": training_runs.VIEW,
    "regression": regression_runs.VIEW,
    "engines": engines_runs.VIEW,
}
