"""Widget on a person with several records, with clipping per record or per person.

`group_privacy.py` computes both lines and names the source.

Misconception: "ε = 1 protects each person by ε = 1"
Content: the promise per record for a person with several records, in ε and as an
    attacker’s limit; sampling and clipping by person makes it one promise again
Source: Dwork and Roth 2014, Theorem 2.2; Vadhan 2017, Lemma 2.2; δ(ε) from the exact
    accountant
"""

from __future__ import annotations

from typing import Any

from dpsgd_explorer.web.figures.svg import Picture
from dpsgd_explorer.web.forms.starts import Choices
from dpsgd_explorer.web.hub.widgets.base import Widget
from dpsgd_explorer.web.hub.widgets.people import group_privacy as group
from dpsgd_explorer.web.questions.odds import (
    EPSILON_ALONE,
    THIS_RUN,
    Limits,
    percent_at_most,
)

FIRST = 5  # initial number of records
CERTAIN = 100.0  # percent; a limit that rounds to this value is trivial
RECORDS = tuple(range(1, group.MOST + 1))


def picture() -> Picture:
    """Returns the bound against a person's number of records."""
    return group.people_picture()


def data() -> dict[str, Any]:
    """Returns ε and an attacker's limit, for each number of records of a person."""
    return {
        "target": f"{group.TARGET:g}",
        "delta": f"{group.DELTA:g}",
        "first": RECORDS.index(FIRST),
        "points": [_point(records) for records in RECORDS],
    }


def _point(records: int) -> dict[str, Any]:
    epsilon = group.group_epsilon(records)
    return {
        "records": records,
        "value": round(epsilon, 4),
        "epsilon": group.bound_text(records),
        "limits": _limits(records, epsilon),
    }


def _limits(records: int, epsilon: float) -> str | None:
    """Returns an attacker's limits by name, None if the limit of ε alone is trivial.

    The limit of this run is computed for one record; for several records together it is
    lower than what ε alone allows.
    """
    right = percent_at_most(epsilon, group.DELTA)
    if float(right) >= CERTAIN:
        return None
    if records == 1:
        return str(Limits.of(group.run_phases(), epsilon, group.DELTA))
    return f"{EPSILON_ALONE}: {right} %; {THIS_RUN}: lower, not computed here"


WIDGET = Widget(
    slug="people",
    title="A person with several records",
    picture=picture,
    data=data,
    controls={
        "records": "Records of one person",
        "unit": "Unit of clipping: 0 each record, 1 each person",
    },
    starts={
        "records": (Choices(RECORDS),),
        "unit": (Choices((0, 1), by_place=False),),
    },
)
