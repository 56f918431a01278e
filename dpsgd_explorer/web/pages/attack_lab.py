"""The lab in which one attacks one's own run: a recorded attack, and one's own."""

from __future__ import annotations

from functools import cache
from typing import Any

from flask import render_template, request

from dpsgd_explorer.experiments.attack_config import (
    EXPECTED_BATCH_SIZE,
    POOL,
    STEPS,
    WIDTH,
    AttackConfig,
)
from dpsgd_explorer.web.forms.fields import form_groups, script_fields
from dpsgd_explorer.web.forms.form import read_form
from dpsgd_explorer.web.pages.labs import bp
from dpsgd_explorer.web.recorded.runs import recorded_attack
from dpsgd_explorer.web.run_views.attack import AttackResults, plan_of, results_of


@bp.get("/attack/")
def attack() -> str:
    """Show the lab with the settings of the address; wrong ones stand corrected."""
    form = read_form(AttackConfig, request.args)
    config, _ = recorded_attack()
    return render_template(
        "labs/attack.html",
        form=form,
        groups=form_groups(AttackConfig),
        results=recorded_results(),
        pool=POOL,
        width=WIDTH,
        training_steps=STEPS,
        batch=EXPECTED_BATCH_SIZE,
        page_data={
            "fields": script_fields(AttackConfig),
            "plan": plan_of(config),
            "errors": form.errors,
        },
    )


@cache
def recorded_results() -> AttackResults | None:
    """Return what the recorded attack came to."""
    _, events = recorded_attack()

    def read(kind: str) -> list[dict[str, Any]]:
        return [event["data"] for event in events if event["kind"] == kind]

    return results_of(read)
