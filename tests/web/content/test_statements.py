"""Numbers and facts that pages state, and the tests that the page of teaching names."""

import functools
import html
import math
import re
from pathlib import Path

import numpy as np
import pytest

from dpsgd_explorer import accounting
from dpsgd_explorer.experiments.accountant_words import ACCURACY
from dpsgd_explorer.experiments.catalogue import DATA_SETS
from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.regression import noisy_gradient_descent
from dpsgd_explorer.web.hub.examples.classic_run import classic_plan
from dpsgd_explorer.web.hub.widgets.noise_to_signal.batch_costs import batch_costs
from dpsgd_explorer.web.pages import home
from dpsgd_explorer.web.recorded.runs import recorded
from tests.web.content.test_comparisons import COMPARISONS

ROOT = Path(__file__).parents[3]
TEACHING = ROOT / "docs" / "maintainers" / "teaching.md"
NAMED_TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)(?:\[([\w-]+)\])?`")
WORDS = re.compile(r"<(svg|pre|script|math|style)\b.*?</\1>|<[^>]+>", re.DOTALL)


@pytest.fixture(scope="module")
def pages(reading):
    """Pages as they are read, each fetched once."""

    @functools.cache
    def page(address):
        plain = html.unescape(WORDS.sub("", reading.get(address).text))
        return " ".join(plain.replace("\N{NO-BREAK SPACE}", " ").split())

    return page


#: Numbers that a page states, computed here by another way than the page's.
COMPUTED = {
    "the largest posterior at ε = 1": (
        "/learn/intro/",
        f"{100 * math.e / (1 + math.e):.2f} %",
    ),
    "some record published at δ = 1e-5": (
        "/learn/dp-concepts/",
        f"{100 * (1 - (1 - 1e-5) ** 60_000):.0f} %",
    ),
    "one subsampled step": (
        "/learn/privacy-accounting/",
        accounting.round_up(
            accounting.gaussian_epsilon(delta=1e-5 * 60_000 / 256, noise_multiplier=1.1)
        ),
    ),
}


@pytest.mark.parametrize("name", COMPUTED)
def test_a_page_states_a_computed_number(pages, name):
    address, number = COMPUTED[name]
    assert number in pages(address)


def test_every_row_of_the_page_on_teaching_names_a_test_there_is():
    text = TEACHING.read_text(encoding="utf-8")
    for file, test, row in NAMED_TEST.findall(text):
        assert f"def {test}(" in (ROOT / file).read_text(encoding="utf-8"), test
        if test == "test_a_comparison_names_what_it_holds_beside_both_sides":
            assert row in COMPARISONS


def test_at_fixed_noise_and_epochs_a_larger_batch_spends_more():
    spent = [cost.epsilon_at_fixed_noise for cost in batch_costs()]
    assert spent == sorted(set(spent))


def test_the_noise_that_a_set_up_needs_keeps_its_target():
    for target in (0.3, 1.0, 3.0):
        plan = TrainingConfig.parse({"target_epsilon": target}).plan
        shown = float(accounting.round_up(plan.noise_multiplier, 3))
        spent = accounting.epsilon(
            sample_rate=plan.sample_rate,
            noise_multiplier=shown,
            steps=plan.steps,
            delta=plan.delta,
        )
        assert spent <= target


def test_the_twin_was_behind_early_and_not_in_the_end():
    run, twin = recorded(home.SHOWN_RUN), recorded(home.TWIN)
    pairs = list(zip(run.curve(), twin.curve(), strict=True))
    assert any(own > other for (_, own), (_, other) in pairs[: len(pairs) // 4])
    assert pairs[-1][1][1] > pairs[-1][0][1]


def test_notes_on_accountants_state_no_measured_share():
    assert not [note for note in ACCURACY.values() if "%" in note]


def test_checks_are_not_called_proofs():
    safety = (ROOT / "dpsgd_explorer" / "dp" / "safety").glob("*.py")
    for file in (ROOT / "README.md", *safety):
        found = re.findall(r"\b(?:[Pp]roofs?|proves|proven)\b", file.read_text("utf-8"))
        assert not found, file
    # Audits prove lower bounds and theorems have proofs, but no check of a run is one.
    of_a_check = r"\b(?:[Tt]he|[Ii]ts) proof\s+(?:when|before|at|and|,)|\bits proof\b"
    for file in sorted((ROOT / "docs").rglob("*.md")):
        assert not re.findall(of_a_check, file.read_text("utf-8")), file


def test_only_the_browser_is_said_to_contact_no_other_host():
    """The server may download a data set that is not in the package."""
    folders = (ROOT / "templates", ROOT / "dpsgd_explorer" / "web")
    for file in sorted(file for folder in folders for file in folder.rglob("*.html")):
        text = file.read_text("utf-8")
        assert not re.findall(r"(?<!browser contacts )[Nn]o other host", text), file


def test_the_page_about_the_site_names_every_data_set(reading):
    text = html.unescape(reading.get("/about/").text)
    named = text.partition('id="sources"')[2].partition("</p>")[0]
    for data_set in DATA_SETS.values():
        assert data_set.label in named, data_set.label


def test_the_command_of_the_readme_counts_the_run_of_the_chapters():
    """Its steps were once rounded down: 60 epochs of 234.375 steps."""
    plan = classic_plan()
    batch = f"{plan.expected_batch_size}/{plan.sample_size}"
    command = (
        f"epsilon --sample-rate {batch} --noise-multiplier {plan.noise_multiplier:g} "
        f"--steps {plan.steps} --delta {plan.delta:g}"
    ).replace("e-0", "e-")
    assert command in (ROOT / "README.md").read_text(encoding="utf-8")


def test_good_data_make_a_private_descent_quicker():
    """The same noise, steps and bounds; features in many directions, and collinear.

    Medians of the part of the first error that is left; seeded, and far apart.
    """
    left = {}
    for spread in (1.0, 0.1):
        rng = np.random.default_rng(5)
        x = rng.normal(size=(2_000, 3)) * [1.0, spread, spread]
        x /= np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1.0)
        y = x @ [0.5, 0.5, -0.5]
        path = noisy_gradient_descent(
            x,
            y,
            x_bound=1.0,
            y_bound=1.0,
            delta=1e-5,
            noise_multiplier=5.0,
            steps=40,
            learning_rate=5e-4,
            repetitions=40,
            rng=np.random.default_rng(3),
        )
        error = np.mean((y - path.theta @ x.T) ** 2, axis=1)
        left[spread] = np.median(error) / np.mean(y**2)
    assert left[1.0] < 0.1 * left[0.1]
