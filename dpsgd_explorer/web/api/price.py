"""The price of a change, before it is made."""

from __future__ import annotations

from flask import Blueprint

from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.experiments.kinds import as_training, parse
from dpsgd_explorer.web.api.operation import operation
from dpsgd_explorer.web.http.services import run_store
from dpsgd_explorer.web.questions.change_price import (
    ChangeAnswer,
    ChangeQuestion,
    price,
)

bp = Blueprint("price_api", __name__, url_prefix="/api/v1/runs/<run_id>")


@operation(bp, "GET", "/price")
def change_price(run_id: str, query: ChangeQuestion) -> ChangeAnswer:
    """Returns the ε of a training run after a change of its settings.

    The query contains the changed settings, or the ``further_steps`` of a continued
    run. The run itself does not change.
    """
    store = run_store()
    run = store.get(run_id)
    config = as_training(parse(run.config))
    if config is None:
        raise ConfigError(
            "kind",
            "kind must be training: other runs cannot be changed while they run.",
        )
    if query.further_steps is not None:
        store.continuing.check(run.id, query.further_steps)
    return price(config, store.phases_of([run.id])[run.id], run.step, query.values)
