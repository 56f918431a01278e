"""A table without names: the recorded counts are those of the table itself."""

from collections import Counter

import pytest

from dpsgd_explorer.training.datasets import adult
from dpsgd_explorer.web.hub.widgets.singled_out import widget
from dpsgd_explorer.web.hub.widgets.singled_out.facts import FACTS, ROW


@pytest.fixture(scope="module")
def people():
    names = list(adult.described(adult.DESCRIPTION.read().decode()))
    rows = adult.records(adult.TRAIN.read().decode())
    columns = [names.index(fact.slug) for fact in FACTS]
    return [tuple(row[column] for column in columns) for row in rows]


@pytest.mark.parametrize("known", [0, 0b1, 0b101, 0b1111, 2 ** len(FACTS) - 1])
def test_who_is_left_and_who_stands_alone_are_counted_in_the_table(people, known):
    found = widget.stored()
    assert found["people"] == len(people)
    assert tuple(found["values"]) == people[ROW - 1]
    bits = [i for i in range(len(FACTS)) if known >> i & 1]
    facts = [[person[i] for i in bits] for person in people]
    assert found["left"][known] == facts.count(facts[ROW - 1])
    groups = Counter(map(tuple, facts))
    alone = sum(groups[tuple(one)] == 1 for one in facts) / len(people)
    assert found["alone"][known] == pytest.approx(alone, abs=1e-6)


def test_a_further_fact_never_leaves_more_people():
    left = widget.stored()["left"]
    for known in range(len(left)):
        for i in range(len(FACTS)):
            assert left[known | 1 << i] <= left[known]
    assert left[-1] == 1
