"""The lab of the engines: a recorded comparison, and settings of a new one."""

from __future__ import annotations

from functools import cache
from typing import Any

from flask import render_template, request

from dpsgd_explorer.experiments.engines_config import EnginesConfig
from dpsgd_explorer.web.content.engines import beside_small_models
from dpsgd_explorer.web.forms.fields import form_groups, script_fields
from dpsgd_explorer.web.forms.form import read_form
from dpsgd_explorer.web.labs.base import Lab
from dpsgd_explorer.web.labs.engines.view import recorded_comparison, results_of

# How each engine computes the clipped sum, in one sentence.
MECHANISMS = {
    "hooks": "Stores the inputs and output gradients of each layer, and computes "
    "every sample’s norm and the clipped sum from them. The optimizer step "
    "sets the private gradient.",
    "extending": "The same computation inside the backward pass of each layer, so "
    "that param.grad contains the clipped gradient afterwards and the "
    "optimizer stays unchanged.",
    "vmap": "Maps the whole model over its samples with torch.func. It needs no rule "
    "for any layer, but stores all gradients and rejects modules that cannot "
    "be mapped.",
    "microbatch": "Processes one sample at a time, like a textbook implementation. "
    "It supports any model and shares nothing between samples.",
}


def engines() -> str:
    """Shows the lab with the settings of the address, and errors in them."""
    form = read_form(EnginesConfig, request.args)
    return render_template(
        "labs/engines.html",
        form=form,
        groups=form_groups(EnginesConfig),
        mechanisms=MECHANISMS,
        results=recorded_results(),
        beside_small_models=beside_small_models(),
        page_data={"fields": script_fields(EnginesConfig), "errors": form.errors},
    )


@cache
def recorded_results() -> dict[str, Any]:
    """Returns the results of the recorded comparison."""
    _, events = recorded_comparison()
    return results_of(lambda kind: [e["data"] for e in events if e["kind"] == kind])


LAB = Lab(
    slug="engines",
    title="Engines",
    question="Four ways to the same gradient: what does each cost?",
    summary=(
        "Hooks, extending, vmap and micro-batches on a model of your size: time, "
        "memory, and the largest difference between their numbers."
    ),
    page=engines,
)
