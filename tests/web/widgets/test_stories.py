"""Stories in numbers: a census table, a table without names, a recited number.

What is recorded is what another enumeration finds, what the table itself holds, and
what the accountant says of the same training.
"""

from collections import Counter
from itertools import combinations_with_replacement

import pytest

from dpsgd_explorer.accounting import group_epsilon, round_up
from dpsgd_explorer.training.datasets import adult
from dpsgd_explorer.web.hub.widgets.census_table import table
from dpsgd_explorer.web.hub.widgets.census_table import widget as census
from dpsgd_explorer.web.hub.widgets.recited_number import widget as recited
from dpsgd_explorer.web.hub.widgets.singled_out import widget as singled_out
from dpsgd_explorer.web.hub.widgets.singled_out.facts import FACTS, ROW


def test_exactly_one_block_fits_all_that_is_published():
    counts = [count for count, _ in census.fits()]
    assert len(counts) == 2 ** len(table.STATISTICS)
    assert counts[-1] == min(counts) == 1
    _, ranges = census.fits()[-1]
    assert [tuple(pair) for pair in ranges] == [(age, age) for age in table.AGES]


def test_each_number_that_is_published_rules_out_blocks_and_never_the_truth():
    for published, (count, ranges) in enumerate(census.fits()):
        for low, high, age in zip(*zip(*ranges, strict=True), table.AGES, strict=True):
            assert low <= age <= high
        for i in range(len(table.STATISTICS)):
            if not published >> i & 1:
                assert census.fits()[published | 1 << i][0] <= count


def test_the_recorded_count_is_that_of_a_plain_search():
    """With the means of all, of the women and of the adults, and the men's median."""
    women_sum, men_sum = sum(table.WOMEN), sum(table.MEN)
    grown = [age for age in table.AGES if age >= table.ADULT]
    ages = range(table.OLDEST + 1)
    found = 0
    for men in combinations_with_replacement(range(men_sum + 1), 3):
        if sum(men) != men_sum or sorted(men)[1] != sorted(table.MEN)[1]:
            continue
        for first in ages:
            second = women_sum - first
            if not first <= second <= table.OLDEST:
                continue
            adults = [age for age in (first, second, *men) if age >= table.ADULT]
            found += sum(adults) * len(grown) == sum(grown) * len(adults)
    names = [one.slug for one in table.STATISTICS]
    published = sum(1 << names.index(name) for name in ("women", "men", "adults"))
    assert census.fits()[published][0] == found > 1


def test_all_blocks_are_counted_before_anything_is_published():
    small = len(list(combinations_with_replacement(range(4), 2))) * len(
        list(combinations_with_replacement(range(4), 3))
    )
    assert small == (4 * 5 // 2) * (4 * 5 * 6 // 6)
    count = table.OLDEST + 1
    assert table.all_blocks() == (count * (count + 1) // 2) * (
        count * (count + 1) * (count + 2) // 6
    )


@pytest.fixture(scope="module")
def people():
    names = list(adult.described(adult.DESCRIPTION.read().decode()))
    rows = adult.records(adult.TRAIN.read().decode())
    columns = [names.index(fact.slug) for fact in FACTS]
    return [tuple(row[column] for column in columns) for row in rows]


@pytest.mark.parametrize("known", [0, 0b1, 0b101, 0b1111, 2 ** len(FACTS) - 1])
def test_who_is_left_and_who_stands_alone_are_counted_in_the_table(people, known):
    found = singled_out.stored()
    assert found["people"] == len(people)
    assert tuple(found["values"]) == people[ROW - 1]
    bits = [i for i in range(len(FACTS)) if known >> i & 1]
    facts = [[person[i] for i in bits] for person in people]
    assert found["left"][known] == facts.count(facts[ROW - 1])
    groups = Counter(map(tuple, facts))
    alone = sum(groups[tuple(one)] == 1 for one in facts) / len(people)
    assert found["alone"][known] == pytest.approx(alone, abs=1e-6)


def test_a_further_fact_never_leaves_more_people():
    left = singled_out.stored()["left"]
    for known in range(len(left)):
        for i in range(len(FACTS)):
            assert left[known | 1 << i] <= left[known]
    assert left[-1] == 1


def test_the_model_recites_only_what_was_in_its_training_text():
    answers = {one["copies"]: one for one in recited.stored()["answers"]}
    assert answers[0]["ordinary"]["rank"] > 100
    assert answers[max(answers)]["ordinary"]["number"] == recited.stored()["number"]
    for answer in answers.values():
        for way in recited.WAYS:
            assert (answer[way]["rank"] == 1) == (
                answer[way]["number"] == recited.stored()["number"]
            )
            for shares in answer[way]["digits"]:
                assert sum(shares) == pytest.approx(1, abs=1e-3)
        assert answer["private"]["rank"] > 10


def test_the_promise_of_a_recited_number_counts_its_copies():
    found = recited.stored()
    for answer in recited.data()["answers"]:
        copies = answer["copies"]
        run = {
            "sample_rate": found["batch_size"] / (found["persons"] + copies),
            "noise_multiplier": answer["private"]["noise_multiplier"],
            "steps": found["steps"],
            "delta": found["delta"],
        }
        assert round_up(group_epsilon(**run, records=1)) in answer["guarantee"]
        of_copies = group_epsilon(**run, records=max(1, copies))
        assert copies < 2 or round_up(of_copies) in answer["guarantee"]
