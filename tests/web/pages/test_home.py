"""The landing page, and the frame that every page stands in."""

import re
from pathlib import Path
from statistics import mean

import numpy as np
import pytest

from dpsgd_explorer.accounting import epsilon, round_up, trade_off
from dpsgd_explorer.experiments.catalogue import MODELS
from dpsgd_explorer.experiments.presets import PRESETS
from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.web.hub.widgets.noise import record as noise_levels
from dpsgd_explorer.web.hub.widgets.noise import widget as noise
from dpsgd_explorer.web.pages.about import results
from dpsgd_explorer.web.pages.home import SHOWN_RUN, TWIN
from dpsgd_explorer.web.questions.odds import Limits
from dpsgd_explorer.web.recorded.runs import recorded
from tests.web.reading import Page

STATIC = Path(__file__).parents[3] / "static"


STANDARD_NORMAL = noise.data()["without"]
#: A target's noise is found by a search, whose last digits are the machine's.
TOLERANCE = 1e-6


@pytest.fixture(scope="module")
def text(reading):
    return reading.get("/").text


@pytest.fixture(scope="module")
def about(reading):
    return reading.get("/about/").text


def test_the_run_that_is_shown_was_really_made_by_this_configuration():
    run, twin = recorded(SHOWN_RUN), recorded(TWIN)
    plan = run.config.plan
    end = run.data("end")[0]
    again = epsilon(
        sample_rate=plan.sample_rate,
        noise_multiplier=plan.noise_multiplier,
        steps=plan.steps,
        delta=plan.delta,
    )
    assert end["epsilon"] == pytest.approx(again, rel=TOLERANCE)
    told = end["receipt"]["told"]["noise_multiplier"]
    assert told == pytest.approx(plan.noise_multiplier, rel=TOLERANCE)
    assert run.data("phase")[0]["noise_multiplier"] == told
    assert run.summary["test_accuracy"] == end["test_accuracy"] == run.curve()[-1][1]
    assert not twin.config.private
    assert twin.config.seed == run.config.seed
    assert [step for step, _ in twin.curve()] == [step for step, _ in run.curve()]


def test_noise_levels_are_those_of_the_command_and_spend_what_was_recorded():
    stored = noise.stored()
    assert tuple(stored["seeds"]) == noise_levels.SEEDS
    assert len(noise.levels()) == len(noise_levels.LEVELS) == 9
    for level, sigma, measured in zip(
        noise.levels(), noise_levels.LEVELS, stored["levels"], strict=True
    ):
        settings = noise_levels.SETTINGS | {"noise_multiplier": sigma}
        assert level.config == TrainingConfig.parse(settings)
        assert level.epsilon == pytest.approx(measured["epsilon"], rel=TOLERANCE)
        assert level.words["accuracy"] == f"{100 * level.accuracy:.1f}"
        assert level.accuracy == mean(measured["test_accuracy"])
    limits = [level.limits.run for level in noise.levels()]
    assert limits == sorted(limits, reverse=True)


@pytest.mark.parametrize("level", noise.levels(), ids=lambda level: f"{level.noise:g}")
def test_both_worlds_are_drawn_as_far_apart_as_the_limit_says(level):
    """Half the area between two densities is what the best attacker gains."""
    run = level.phase
    shares = np.linspace(0, 1, 101)
    reached = trade_off(
        sample_rate=run.sample_rate,
        noise_multiplier=run.noise_multiplier,
        steps=run.steps,
        false_positive_rates=shares,
    )
    best = float(np.max(1 + np.array(reached) - shares)) / 2
    assert best - 1e-9 <= level.limits.run <= best + 1e-3
    assert float(level.words["limit"]) >= 100 * level.limits.run
    width = noise.PLACES[1] - noise.PLACES[0]
    with_it, without = (
        np.array(values) for values in (noise.density_with(level), STANDARD_NORMAL)
    )
    assert sum(with_it) * width == pytest.approx(1, abs=2e-3)
    gain = sum(np.abs(with_it - without)) * width / 4
    assert 0.5 + gain == pytest.approx(level.limits.run, abs=2e-3)


def test_the_landing_page_has_its_first_numbers_before_any_script(reading, text):
    heading = re.search(r"<h1>(.*?)</h1>", text)[1]
    assert "limit" in heading
    assert "cannot" not in heading
    data = noise.data()
    first = data["levels"][data["first"]]
    for name in ("limit", "accuracy", "epsilon", "alone"):
        assert f'data-part="{name}">{first[name]}<' in text
    drawing = text.split('data-part="worlds"')[1].split("</svg>")[0]
    assert drawing.count('class="line s-private') == 2
    reached = [(x["is_merged"], x["is_broken"]) for x in data["levels"]]
    assert reached[0] == (False, False)
    assert (True, False) in reached  # merged, and the model still reads
    assert reached[-1] == (True, True)
    query = noise.data()["query"]
    page = reading.get(f"/train/?{query}&noise_multiplier=4").text
    assert "There is no setting" not in page
    assert f'data-plan="epsilon">{noise.levels()[3].words["epsilon"]}<' in page


@pytest.mark.parametrize("preset", PRESETS, ids=lambda preset: preset.slug)
def test_every_preset_has_a_recorded_run_of_its_configuration(preset):
    config = recorded(preset.slug).config.model_dump()
    assert preset.config.items() <= config.items()


def test_every_number_of_the_shown_run_comes_from_its_events(about):
    run, twin = recorded(SHOWN_RUN), recorded(TWIN)
    accuracy, unprotected = (
        round(100 * one.summary["test_accuracy"], 2) for one in (run, twin)
    )
    spent = run.summary["epsilon"]
    shown = [value for _, value, _, _ in results(run, twin)]
    cost = f"{unprotected - accuracy:.2f}"  # as a reader subtracts what is printed
    expected = [f"{accuracy:.2f}", cost, round_up(spent)]
    both = Limits.of(run.config.plan.phases, spent, run.config.delta).percents
    assert shown == [*expected, both["this run"]]
    about = about.replace("\N{NO-BREAK SPACE}", " ")
    assert f"would allow {both['ε alone']} %" in about
    for value in shown:
        assert f'<span class="num">{value}</span>' in about
    assert f"At ε = {round_up(spent)} the model is right on {accuracy:.2f}" in about
    assert f"on {unprotected:.2f}" in about
    assert MODELS[run.config.model].label.lower() in about


def test_the_three_doors_lead_to_pages(reading, text):
    links = [a["href"] for a in Page(text).all("a")]
    assert {"/train/", "/learn/", "/learn/short/", "/runs/", "/labs/"} <= set(links)
    for link in links:
        if link.startswith("/"):
            assert reading.get(link, buffered=True).status_code == 200, link


def test_the_recorded_run_can_be_run_again(about):
    link = next(a["href"] for a in Page(about).all("a") if "/train/?" in a["href"])
    assert link == "/train/?target_epsilon=1.0"


def test_the_landing_page_is_light(reading, text):
    links = Page(text).all("link")
    files = [a["href"] for a in links if a["rel"] != "preload"]  # no fonts
    files += [a["src"] for a in Page(text).all("script") if "src" in a]
    weight = len(text.encode())
    for file in files:
        with reading.get(file) as answer:
            weight += len(answer.data)
    assert "plotly" not in text
    assert weight < 150_000  # without compression


def test_every_page_has_one_heading_a_way_past_the_frame_and_a_marked_place(reading):
    for address in ("/", "/learn/", "/learn/intro/", "/train/", "/runs/"):
        text = reading.get(address).text
        page = Page(text)
        assert len(page.all("h1")) == 1, address
        assert page.all("html") == [{"lang": "en"}]
        assert page.all("a")[0] == {"class": "skip", "href": "#main"}
        assert page.all("main")[0]["id"] == "main"
        links = Page(re.search(r"<nav class.*?</nav>", text, re.DOTALL)[0]).all("a")
        places = ["/learn/", "/train/", "/labs/", "/runs/", "/teach/"]
        assert [link["href"] for link in links] == places
        marked = [link["href"] for link in links if "aria-current" in link]
        assert marked == ([] if address == "/" else [f"/{address.split('/')[1]}/"])


def test_a_page_that_is_not_there_says_so_in_the_frame(reading):
    answer = reading.get("/nowhere", headers={"Accept": "text/html"})
    assert answer.status_code == 404
    assert "Error 404" in answer.text
    assert 'href="/train/"' in answer.text


def test_the_two_dark_themes_are_equal():
    css = (STATIC / "css" / "tokens.css").read_text(encoding="utf-8")
    css = re.sub(r"/\*.*?\*/", "", css, flags=re.DOTALL)
    wish = re.search(r':root:not\(\[data-theme="light"\]\) \{(.*?)\}', css, re.DOTALL)
    switch = re.search(r':root\[data-theme="dark"\] \{(.*?)\}', css, re.DOTALL)
    declared = [re.sub(r"\s+", " ", found[1]).strip() for found in (wish, switch)]
    assert declared[0] == declared[1]
    assert declared[0].count("--") > 30


def test_style_sheets_use_only_tokens_that_exist():
    tokens = (STATIC / "css" / "tokens.css").read_text(encoding="utf-8")
    known = set(re.findall(r"(--[\w-]+):", tokens))
    for sheet in ("base", "home", "learn"):
        css = (STATIC / "css" / f"{sheet}.css").read_text(encoding="utf-8")
        own = set(re.findall(r"(--[\w-]+):", css))
        assert set(re.findall(r"var\((--[\w-]+)", css)) <= known | own
        assert not re.search(r"#[0-9a-fA-F]{3,8}\b", css), "colours are tokens"


def test_the_theme_is_set_before_the_page_is_painted(text):
    head = text[: text.index("</head>")]
    script = re.search(r"<script[^>]*theme\.js[^>]*>", head)[0]
    assert "defer" not in script
    assert "module" not in script


def test_the_film_is_short_and_plays_once(reading):
    page = Page(reading.get("/").text)
    [picture] = [img for img in page.all("img") if "data-film" in img]
    film = reading.get(picture["data-film"], buffered=True).data
    assert len(film) < 1_000_000
    assert film[8:16] == b"WEBPVP8X"
    assert film.count(b"ANMF") > 60  # frames
    at = film.index(b"ANIM") + 12  # after name, size and background
    assert int.from_bytes(film[at : at + 2], "little") == 1  # plays once
    assert reading.get(picture["src"], buffered=True).status_code == 200
