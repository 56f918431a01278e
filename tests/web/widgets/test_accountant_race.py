"""The accountant race: its lines against the accountants, its door against the lab."""

from itertools import pairwise
from urllib.parse import parse_qsl

import pytest

from dpsgd_explorer import accounting
from dpsgd_explorer.accounting import ACCOUNTANTS
from dpsgd_explorer.experiments.accountant_words import LABELS
from dpsgd_explorer.web.forms.form import parse_texts
from dpsgd_explorer.web.hub.widgets.accountant_race import widget
from dpsgd_explorer.web.labs.accountants.page import RaceQuestion

COURSES = pytest.mark.parametrize("course", widget.courses(), ids=lambda c: c.name)


@COURSES
def test_every_line_ends_at_its_accountants_value_and_not_below(course):
    racers = widget.runners(course)
    assert {"exact", "gdp", "basic"} < {one.accountant for one in racers}
    for one in racers:
        truth = accounting.epsilon(**course.settings, accountant=one.accountant)
        assert truth * (1 - 1e-9) <= one.epsilon[-1] <= truth * (1 + 2e-5)
        assert one.status == ACCOUNTANTS[one.accountant].status
        assert len(one.epsilon) == len(widget.counted(course).steps)
        assert all(a <= b for a, b in pairwise(one.epsilon))


@COURSES
def test_no_bound_is_below_the_truth_and_the_approximation_is(course):
    racers = {one.accountant: one for one in widget.runners(course)}
    exact = racers["exact"].epsilon
    for one in racers.values():
        if one.status == "bound":
            pairs = zip(one.epsilon, exact, strict=True)
            assert all(bound >= truth for bound, truth in pairs)
    below = racers["gdp"].epsilon[-1] < exact[-1]
    assert below == (course.sample_rate < 1)  # without sampling the limit is exact


def test_the_chapter_asks_about_what_the_picture_says():
    end = widget.picture()
    run = widget.courses()[0].settings
    for accountant in ("exact", "rdp", "gdp"):
        said = widget.said(accountant)
        spent = accounting.epsilon(**run, accountant=accountant)
        assert said == accounting.round_up(spent)
        assert (said,) in {row[2:] for row in end.rows if row[0] == LABELS[accountant]}
    assert float(widget.said("gdp")) < float(widget.said("exact"))
    assert float(widget.said("exact")) < float(widget.said("rdp"))
    assert f"exactly ε = {widget.said('exact')}," in end.title


def test_a_large_epsilon_is_printed_whole_and_not_below():
    assert widget.said("basic") == "5,446"
    ends = [one.epsilon[-1] for one in widget.runners(widget.courses()[0])]
    assert 5445 < max(ends) <= 5446


def test_the_door_leads_to_the_lab_with_the_same_settings():
    for course, sent in zip(widget.courses(), widget.data()["courses"], strict=True):
        asked = parse_texts(RaceQuestion, dict(parse_qsl(sent["query"])))
        assert asked.model_dump() == course.settings
        names = [one.label for one in widget.runners(course)]
        assert [one["label"] for one in sent["curves"]] == names


@COURSES
def test_the_close_up_holds_its_lines(course):
    for one in widget.runners(course):
        if one.accountant in widget.CLOSE:
            assert 0 < max(one.epsilon) <= widget.top(course)
