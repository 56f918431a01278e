"""The lab of the engines: a recorded comparison, and the settings of one's own."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from flask import render_template, request

from dpsgd_explorer.experiments.engines_config import EnginesConfig
from dpsgd_explorer.experiments.vocabulary import ENGINES
from dpsgd_explorer.web.forms.lab_form import read_lab
from dpsgd_explorer.web.pages.labs import bp
from dpsgd_explorer.web.recorded import runs as recorded
from dpsgd_explorer.web.run_views.engines import fields, plan_of

RECORDED = recorded.FOLDER / "engines" / "transformer.json"

# What it computes from, in one sentence each.
MECHANISMS = {
    "hooks": "Keeps what each layer saw and was sent back, makes every sample’s norm "
    "from it, and then the clipped sum. The gradient is put in place at the step.",
    "extending": "The same from within each layer’s own backward, so that the clipped "
    "gradient stands in param.grad afterwards and the optimizer is untouched.",
    "vmap": "Maps the whole model over its samples with torch.func. It needs no rule "
    "for any layer, but holds all gradients, and refuses what cannot be mapped.",
    "microbatch": "Runs one sample at a time, as a textbook would. Any model will do, "
    "and nothing is shared between samples.",
}


@bp.get("/engines/")
def engines() -> str:
    """Show the lab with the settings of the address; wrong ones stand corrected."""
    form, _ = read_lab(EnginesConfig, request.args)
    groups: dict[str, list[Any]] = {}
    for ask in fields().values():
        groups.setdefault(ask.group, []).append(ask)
    return render_template(
        "labs/engines.html",
        form=form,
        groups=groups,
        labels=ENGINES,
        mechanisms=MECHANISMS,
        page_data={
            "fields": [ask.for_script() for ask in fields().values()],
            "recorded": comparison(),
            "errors": form.errors,
        },
    )


@cache
def comparison() -> dict[str, Any]:
    """Return the recorded comparison: its plan and its events."""
    stored = json.loads(RECORDED.read_text(encoding="utf-8"))
    config = EnginesConfig.parse(stored["config"])
    return {"plan": plan_of(config), "events": stored["events"]}
