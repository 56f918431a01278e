"""Widget on a person with several records, with clipping per record or per person.

`group_privacy.py` computes both lines and names the source.

Misconception: "ε = 1 protects each person by ε = 1"
Content: the promise per record for a person with several records, in ε and as an
    attacker’s limit; sampling and clipping by person makes it one promise again
Source: Ganesh 2024, arXiv:2401.10294; the exact accountant
"""

from __future__ import annotations

from typing import Any

from dpsgd_explorer.web.figures.svg import Picture
from dpsgd_explorer.web.forms.starts import Choices
from dpsgd_explorer.web.hub.widgets.base import Widget
from dpsgd_explorer.web.hub.widgets.people import group_privacy as group
from dpsgd_explorer.web.questions.odds import Limits, attacker_accuracy

FIRST = 5  # initial number of records
RECORDS = tuple(range(1, group.MOST + 1))


def picture() -> Picture:
    """Returns ε against a person's number of records."""
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
        "epsilon": group.epsilon_text(records),
        "limits": _limits(records, epsilon),
    }


def _limits(records: int, epsilon: float) -> str:
    """Returns an attacker's limits by name."""
    alone = attacker_accuracy(epsilon, group.DELTA)
    return str(Limits(min(group.run_certainty(records), alone), alone))


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
