"""How each kind of run is shown: one line a kind."""

from __future__ import annotations

from dpsgd_explorer.web.run_views.attack import AttackView
from dpsgd_explorer.web.run_views.base import RunView
from dpsgd_explorer.web.run_views.engines import EnginesView
from dpsgd_explorer.web.run_views.planted_bug import PlantedBugView
from dpsgd_explorer.web.run_views.regression import RegressionView
from dpsgd_explorer.web.run_views.search import SearchView
from dpsgd_explorer.web.run_views.training import TrainingView

VIEWS: dict[str, RunView] = {
    "training": TrainingView(),
    "regression": RegressionView(),
    "engines": EnginesView(),
    "search": SearchView(),
    "attack": AttackView(),
    "planted_bug": PlantedBugView(),
}
