"""Every question at the ends of what each of its numbers may be: never a fault of ours.

The questions and the domains are those of the specification, so a new one is asked too.
"""

import math
import sys

import pytest

from dpsgd_explorer.web.api.openapi import described_routes

USUAL = {
    "sample_rate": 0.01,
    "noise_multiplier": 1.0,
    "steps": 10,
    "target_epsilon": 1.0,
    "epsilon": 1.0,
    "points": 3,
}
TINY, HUGE = 5e-324, sys.float_info.max
TEXTS = ("nan", "-0", "\u0663", "9" * 400, "a\0")


@pytest.fixture
def questions(app):
    """The parameters of each question that its query alone answers, by path."""
    document = app.test_client().get("/openapi.json").json
    return {
        rule: document["paths"][rule]["get"]["parameters"]
        for rule, operation in described_routes(app)
        if operation.query is not None and "<" not in rule
    }


def ends(schema):
    """The numbers at both ends of a parameter's domain, and beyond them."""
    options = [schema, *schema.get("anyOf", ())]
    if not any(option.get("type") in ("number", "integer") for option in options):
        return []
    low, high = -HUGE, HUGE
    for option in options:
        low = option.get("minimum", option.get("exclusiveMinimum", low))
        high = option.get("maximum", option.get("exclusiveMaximum", high))
    near = [low, math.nextafter(low, HUGE), high, low + TINY, sys.float_info.min]
    return sorted({int(x) if float(x).is_integer() else x for x in near})


def queries(parameters):
    """Each number at its ends, the others usual; then all at their ends together."""
    usual = {p["name"]: USUAL[p["name"]] for p in parameters if p["name"] in USUAL}
    numbers = {p["name"]: ends(p["schema"]) for p in parameters if ends(p["schema"])}
    for name, values in numbers.items():
        yield from (usual | {name: value} for value in (*values, *TEXTS))
    for at in (0, 1, 2, -1):
        yield {name: values[at] for name, values in numbers.items()}
        for free in numbers:
            together = {name: values[at] for name, values in numbers.items()}
            yield together | {name: usual[name] for name in [free] if name in usual}


@pytest.mark.long("every box")
def test_no_number_is_a_fault_of_ours(app, questions, monkeypatch):
    monkeypatch.setitem(app.config, "PROPAGATE_EXCEPTIONS", False)
    client, faults = app.test_client(), []
    asked = [
        (path, query) for path, them in questions.items() for query in queries(them)
    ]
    assert len(asked) > 100
    for path, query in asked:
        if client.get(path, query_string=query).status_code not in (200, 422):
            faults.append((path, query))
    assert faults == []
