"""The lab of membership attacks: a recorded attack, and settings of a new one."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from flask import render_template, request

from dpsgd_explorer.errors import ConfigError, RunNotFoundError
from dpsgd_explorer.experiments.attack_config import POOL, AttackConfig
from dpsgd_explorer.experiments.kinds import as_training, parse
from dpsgd_explorer.web.forms.fields import form_groups, script_fields
from dpsgd_explorer.web.forms.form import read_form, to_query
from dpsgd_explorer.web.http.data_sets import STAND_IN, absent_default
from dpsgd_explorer.web.http.services import run_store
from dpsgd_explorer.web.labs.attack.view import (
    AttackResults,
    AttackView,
    plan_of,
    results_of,
)
from dpsgd_explorer.web.labs.base import Lab
from dpsgd_explorer.web.recorded.files import recording

GONE = (
    "this run does not exist, or it was deleted. The lab shows its own settings "
    "instead. Open your run and choose “Attack this run” there."
)
OTHER_KIND = (
    "this run cannot be attacked, because it is not a training. Open a run of the "
    "trainer."
)


@dataclass(frozen=True)
class Source:
    """The run whose settings the attacked model repeats.

    Attributes:
        run_id: Id of the run; "" if the address has none.
        query: Settings of the attack on the run.
        refusal: Reason why the run cannot be attacked; "" if it can.
    """

    run_id: str = ""
    query: dict[str, str] | None = None
    refusal: str = ""


def attack() -> str:
    """Shows the lab with the settings of the address or of the run in the address."""
    source = _source(request.args.get("run", ""))
    settings = {name: text for name, text in request.args.items() if name != "run"}
    settings = (source.query or {}) | settings
    absent = "" if settings else absent_default()
    form = read_form(AttackConfig, {"dataset": STAND_IN} if absent else settings)
    config, _ = recorded_attack()
    return render_template(
        "labs/attack.html",
        form=form,
        absent=absent,
        groups=form_groups(AttackConfig),
        results=recorded_results(),
        pool=POOL,
        recorded_title=AttackView().title(config.model_dump()),
        shadows=config.shadows,
        source=source,
        page_data={
            "fields": script_fields(AttackConfig),
            "plan": plan_of(config),
            "errors": form.errors,
        },
    )


def _source(run_id: str) -> Source:
    """Returns the run that the address names, with the settings of an attack on it."""
    if not run_id:
        return Source()
    try:
        config = as_training(parse(run_store().get(run_id).config))
        if config is None:
            return Source(run_id, refusal=OTHER_KIND)
        return Source(run_id, to_query(AttackConfig.of_run(config)))
    except RunNotFoundError:
        return Source(run_id, refusal=GONE)
    except ConfigError as error:
        return Source(run_id, refusal=str(error))


@cache
def recorded_attack() -> tuple[AttackConfig, list[dict[str, Any]]]:
    """Returns the settings and the events of the recorded attack."""
    stored = recording("recorded", Path(__file__).parent)
    return AttackConfig.parse(stored["config"]), stored["events"]


@cache
def recorded_results() -> AttackResults | None:
    """Returns the results of the recorded attack."""
    _, events = recorded_attack()

    def read(kind: str) -> list[dict[str, Any]]:
        return [event["data"] for event in events if event["kind"] == kind]

    return results_of(read)


LAB = Lab(
    slug="attack",
    title="Attack your own run",
    question="Who was in the training? Guess, and meet the ceiling of a private run.",
    summary=(
        "Three attacks on membership against a private model and its ordinary twin, a "
        "record of yours planted with a wrong label, and the curve that no attack "
        "passes."
    ),
    page=attack,
)
