"""The pictures of single chapters: every number against another way to compute it."""

import math
import re

import pytest
import torch
from scipy.stats import binom

from dpsgd_explorer.accounting import (
    Odometer,
    epsilon,
    noise_multiplier,
    trade_off,
)
from dpsgd_explorer.web.hub.chapters.auditing import figures as audit
from dpsgd_explorer.web.hub.chapters.planning_a_budget import figures as selection
from dpsgd_explorer.web.hub.chapters.private_linear_regression import (
    figures as regression_chapter,
)
from dpsgd_explorer.web.hub.chapters.what_models_leak import figures as exposure
from dpsgd_explorer.web.hub.examples import toy_problem as toy
from dpsgd_explorer.web.hub.examples.default_run import default_plan
from dpsgd_explorer.web.hub.examples.toy_training import STEPS, train
from dpsgd_explorer.web.hub.widgets.rare_class import readings as rare_class
from dpsgd_explorer.web.hub.widgets.unfolded import widget as unfold


def test_the_unfolded_convolution_is_torch_s():
    image = torch.tensor(unfold.IMAGE, dtype=torch.float64)[None, None]
    kernel = torch.tensor(unfold.KERNEL, dtype=torch.float64)[None, None]
    kernel.requires_grad_()
    columns = torch.nn.functional.unfold(image, 2)[0]
    assert columns.T.tolist() == unfold.patches()
    outputs = torch.nn.functional.conv2d(image, kernel)
    assert outputs.flatten().tolist() == unfold.output()
    slopes = torch.tensor(unfold.OUTPUT_GRADIENT, dtype=torch.float64)
    outputs.backward(slopes[None, None])
    assert kernel.grad.flatten().tolist() == unfold.kernel_gradient()
    assert unfold.kernel_gradient() != unfold.output(), "two things, two numbers"


def test_choosing_costs_less_than_adding_up_and_never_less_than_one_run():
    for runs in selection.RUNS:
        assert epsilon_of_one() <= selection.all_of_them(runs) <= runs * (1 + 1e-9)
        assert selection.best(runs) >= epsilon_of_one()
    few, many = selection.RUNS[1], selection.RUNS[-1]
    assert selection.best(few) > selection.all_of_them(few)  # as the chapter says
    assert selection.best(many) < selection.all_of_them(many) < many


def epsilon_of_one():
    return selection.all_of_them(1) * (1 - 1e-9)


def test_a_split_budget_is_spent_to_the_end_and_not_beyond():
    """The first run's phases and the second's, at the noise that the table prints."""
    plan = default_plan()
    for first, added, together, _ in selection.splits():
        one = noise_multiplier(
            target_epsilon=float(first),
            sample_rate=plan.sample_rate,
            steps=plan.steps,
            delta=1e-5,
        )
        done = Odometer()
        done.add_dp_sgd(plan.sample_rate, one, plan.steps)
        done.add_dp_sgd(plan.sample_rate, float(together), plan.steps)
        assert 0.998 * selection.TOTAL < done.epsilon(1e-5) <= selection.TOTAL
        alone = epsilon(
            sample_rate=plan.sample_rate,
            noise_multiplier=float(added),
            steps=plan.steps,
            delta=1e-5,
        )
        assert alone <= selection.TOTAL - float(first)


def test_deciding_late_makes_a_budget_shorter():
    assert 0 < int(selection.filtered_steps()) < int(selection.fixed_steps())


def test_the_odd_record_is_the_most_exposed_and_no_private_one_beats_the_limit():
    rows = exposure.exposures()
    assert sorted(i for i, _, _ in rows) == list(range(toy.SIZE))
    assert rows[-1][0] == toy.ODD
    assert rows[-1][1] > 0.95
    # Of 24 shares of 400 calls none exceeds its limit by five standard errors.
    error = 0.5 / math.sqrt(2 * exposure.TRAININGS)
    assert max(private for _, _, private in rows) < exposure.limits().run + 5 * error


def test_the_limit_of_right_calls_is_a_point_of_the_trade_off_curve():
    """(TPR + 1 - FPR) / 2 is largest on the curve, here over a grid of FPR."""
    rates = [i / 50 for i in range(51)]
    curve = trade_off(
        sample_rate=exposure.SAMPLE_RATE,
        noise_multiplier=exposure.NOISE,
        steps=STEPS,
        false_positive_rates=rates,
    )
    best = max((t + 1 - f) / 2 for f, t in zip(rates, curve, strict=True))
    assert best == pytest.approx(exposure.limits().run, abs=1e-3)
    assert best <= exposure.limits().run * (1 + 1e-9)


def test_trainings_on_other_records_leave_out_the_last_of_them():
    points = toy.records()
    settings = {
        "sample_rate": 0.5,
        "noise_multiplier": 1.0,
        "max_grad_norm": 1.0,
        "seed": 3,
    }
    usual = train(5, with_odd=False, **settings)
    other = train(5, with_odd=False, records=[*points[:-1], (9.0, 9.0)], **settings)
    assert (usual == other).all()
    seen = train(5, with_odd=True, records=[*points[:-1], (9.0, 9.0)], **settings)
    assert (seen != train(5, with_odd=True, **settings)).any()


def test_an_audit_refutes_the_planted_faults_and_not_the_sound_program():
    bounds = {one.name: one.bounds for one in audit.audited()}
    assert bounds["as promised"][-1] < audit.promised()
    assert bounds["noise divided twice"][-1] > audit.promised()
    assert bounds["the mean is clipped"][-1] > audit.promised()
    place = audit.COUNTS.index(400)  # as the chapter's question says
    before, after = bounds["noise divided twice"][place - 1 : place + 1]
    assert before < audit.promised() < after


@pytest.mark.parametrize(("h", "a"), [(0.3, 0.1), (0.95, 0.8), (0.5, 0.02)])
def test_a_bound_of_an_audit_is_too_large_in_one_case_of_twenty_at_most(h, a):
    """Over all counts that 40 trainings per world can give; δ = 0."""
    count, wrong = 40, 0.0
    allowed = max(math.log(h / a), math.log((1 - a) / (1 - h)))
    for hits in range(count + 1):
        for alarms in range(count + 1):
            chance = binom.pmf(hits, count, h) * binom.pmf(alarms, count, a)
            wrong += chance * (audit.lower_bound(hits, alarms, count, 0.0) > allowed)
    assert wrong <= 0.05


def test_more_delta_leaves_less_to_prove_and_no_calls_prove_nothing():
    assert audit.lower_bound(100, 0, 100) < audit.lower_bound(100, 0, 100, 0.0)
    assert audit.lower_bound(0, 0, 100) == 0
    assert audit.lower_bound(50, 50, 100) == 0
    assert audit.lower_bound(0, 100, 100) == 0


def test_the_recorded_runs_of_a_rare_class_say_what_the_chapter_says():
    mean, label, levels = rare_class.mean, rare_class.rare_digit(), rare_class.levels()
    frequent = [mean("whole", level, label) for level in levels]
    scarce = [mean("rare", level, label) for level in levels]
    rest = [rare_class.others(level) for level in levels]
    assert max(frequent) - min(frequent) < 1.5  # hardly notices privacy
    assert max(rest) - min(rest) < 1.5
    ordinary, clipped, three, one = scarce
    assert frequent[0] - ordinary > ordinary - one > 3  # rarity costs more
    assert ordinary - one > 3 * (frequent[0] - frequent[-1])
    usual = mean("rare", rare_class.CLIPPED, label, rare_class.USUAL)
    assert ordinary - usual > 3  # clipping at the usual rate is slow
    assert abs(ordinary - clipped) < 2  # and at its own rate costs nothing to speak of
    assert float(rare_class.tuned_factor("rare", rare_class.CLIPPED)) > 1
    assert three > one
    assert rare_class.tuned_factor("rare", rare_class.LEAST) == rare_class.USUAL
    assert int(rare_class.clipped_share("rare")) > 5 * int(
        rare_class.clipped_share("others")
    )


def test_the_recorded_runs_of_a_rare_class_spent_what_they_say():
    run = rare_class.stored()
    for data in run["data"].values():
        rate = run["batch_size"] / sum(data["records"])
        for level, tried in data["runs"].items():
            spent = [one["epsilon"] for seeds in tried.values() for one in seeds]
            assert len(spent) == len(tried) * len(run["seeds"])
            if level in (rare_class.ORDINARY, rare_class.CLIPPED):
                assert set(spent) == {None}
                continue
            target = float(level.removeprefix("ε = "))
            noise = noise_multiplier(
                target_epsilon=target,
                sample_rate=rate,
                steps=run["steps"],
                delta=run["delta"],
            )
            exact = epsilon(
                sample_rate=rate,
                noise_multiplier=noise,
                steps=run["steps"],
                delta=run["delta"],
            )
            assert spent == [pytest.approx(exact, rel=1e-6)] * len(spent)
            assert max(spent) <= target


def test_each_recorded_level_is_shown_at_the_rate_that_is_best_on_average():
    for data in ("rare", "whole"):
        for level in rare_class.levels():
            best = rare_class.tuned_factor(data, level)
            for factor in rare_class.rate_factors(data):
                assert rare_class.mean(data, level, None, factor) <= rare_class.mean(
                    data, level, None, best
                )


def test_what_a_drawing_says_of_the_errors_is_in_its_table():
    """No direction is claimed; the medians said are those of the first and last ε."""
    picture = regression_chapter.comparison_picture()
    [said] = re.findall(r'aria-label="[^"]*: (AdaSSP from [^"]*)\."', picture.wide)
    courses = [re.findall(r"[\d.]+", course) for course in said.split("; ")]
    ends = picture.rows[0], picture.rows[-1]
    for at, course in enumerate(courses, start=1):
        for row, words in zip(ends, course, strict=True):
            median = float(row[at].split()[0])
            digits = len(words.split(".")[1])
            assert abs(float(words) - median) <= 0.51 * 10**-digits
