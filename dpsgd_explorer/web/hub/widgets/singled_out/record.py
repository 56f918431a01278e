"""Recording of how many rows of the Adult table share facts with one of them.

    python -m dpsgd_explorer.web.hub.widgets.singled_out.record

Writes ``recorded.json`` into this folder: for each set of facts the number of training
rows that agree with row ``ROW`` in them, and the share of rows that nobody else agrees
with.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import Any

from dpsgd_explorer.training.datasets import adult
from dpsgd_explorer.web.hub.widgets.singled_out.facts import FACTS, ROW
from tools.record.files import write


def main() -> int:
    """Counts over all sets of facts."""
    names = list(adult.described(adult.DESCRIPTION.read().decode()))
    rows = adult.records(adult.TRAIN.read().decode())
    columns = [names.index(fact.slug) for fact in FACTS]
    people = [tuple(row[column] for column in columns) for row in rows]
    person = people[ROW - 1]
    left: list[int] = []
    alone: list[float] = []
    for known in range(2 ** len(FACTS)):
        bits = [i for i in range(len(FACTS)) if known >> i & 1]
        groups = Counter(tuple(one[i] for i in bits) for one in people)
        left.append(groups[tuple(person[i] for i in bits)])
        alone.append(sum(size == 1 for size in groups.values()) / len(people))
    stored: dict[str, Any] = {
        "people": len(people),
        "values": person,
        "left": left,
        "alone": [round(share, 6) for share in alone],
    }
    write("recorded", stored, folder=Path(__file__).parent)
    print(person, left[-1], alone[-1])
    return 0


if __name__ == "__main__":
    sys.exit(main())
