"""What one takes along: a statement that claims no more than holds, sources, a card."""

import re
import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest

from dpsgd_explorer import accounting
from dpsgd_explorer.experiments.events import Event
from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.web.content.references import SOURCES
from dpsgd_explorer.web.figures.exports import share_card as cards
from dpsgd_explorer.web.figures.exports.share_card import Card, share_card
from dpsgd_explorer.web.questions.odds import Limits
from dpsgd_explorer.web.run_views import statement as statements
from dpsgd_explorer.web.run_views.models import RunSummary
from dpsgd_explorer.web.run_views.statement import NO_STATEMENT, bibtex
from tests.web.conftest import SMALL, ended, error_of, recorded_events

RUNS = "/api/v1/runs"
WITHOUT_NOISE = [
    event.__class__(event.kind, event.data | {"epsilon": None})
    for event in recorded_events()
]


@pytest.fixture
def statement_of(app, store):
    def statement_of(run_id):
        run = store.get(run_id)
        with app.test_request_context():
            spent = RunSummary.of(run, "").privacy
            phases = store.phases_of([run_id])[run_id]
            return statements.statement(run, spent, phases)

    return statement_of


def test_a_statement_says_unit_relation_sampling_accountant_and_what_is_left_out(
    store, finished, statement_of
):
    text = statement_of(finished)
    config = TrainingConfig.parse(store.get(finished).config)
    for words in (
        "ε = 1.00 and δ = 1e-5",
        "Unit: one training record",
        "one record more",
        f"Poisson, every record joins each of 4 steps with probability "
        f"{config.plan.sample_rate:.4g}",
        f"L2 norm at most {config.max_grad_norm:g}",
        "Accountant: Exact; ε is the exact value, rounded up",
        "Not covered: the choice of settings and any other run on these records",
        "test records",
        f"seed {config.seed}: anyone who knows the seed can remove it",
    ):
        assert words in text


def test_the_noise_of_a_statement_is_enough_for_its_epsilon(
    store, finished, statement_of
):
    text = statement_of(finished)
    config = TrainingConfig.parse(store.get(finished).config)
    [noise] = re.findall(r"in all ([\d.]+) times", text)
    assert float(noise) >= config.plan.noise_multiplier
    spent = accounting.epsilon(
        sample_rate=config.plan.sample_rate,
        noise_multiplier=float(noise),
        steps=4,
        delta=config.delta,
    )
    assert spent <= 1.0


@pytest.mark.parametrize(
    "change", [{"private": False}, {"noise_multiplier": 0.0}], ids=["off", "no noise"]
)
def test_without_noise_no_statement_can_be_made(client, store, statement_of, change):
    base = {k: v for k, v in SMALL.items() if k != "target_epsilon"}
    run_id = client.post(RUNS, json=base | change).json["id"]
    ended(store, run_id, WITHOUT_NOISE)
    assert statement_of(run_id) == NO_STATEMENT
    page = client.get(f"/runs/{run_id}/").text
    assert NO_STATEMENT in page


def test_a_run_that_goes_on_claims_nothing(client, run_id, statement_of):
    assert statement_of(run_id) == ""
    assert "Privacy statement" not in client.get(f"/runs/{run_id}/").text


def test_a_run_of_many_noises_states_their_range(client, store, statement_of):
    body = SMALL | {"noise_schedule": "linear", "noise_end": 0.5}
    run_id = client.post(RUNS, json=body).json["id"]
    ended(store, run_id, recorded_events())
    assert re.search(r"in all [\d.]+ to [\d.]+ times", statement_of(run_id))


def test_what_was_chosen_while_looking_is_said(client, store, run_id, statement_of):
    phase, *rest, _end = recorded_events()
    changes = {"changes": {"learning_rate": 2.0}, "chosen": "while looking"}
    changed = Event("phase", phase.data | {"step": 2} | changes)
    ended(store, run_id, [phase, *rest[:3], changed, *rest[3:]], "cancelled")
    text = statement_of(run_id)
    assert "After step 2 settings were changed by choice (learning rate = 2.0)" in text
    assert "It was stopped by choice" in text
    assert text.count("ε holds if this choice used private outputs alone") == 2
    for page in (f"/runs/{run_id}/", f"{RUNS}/{run_id}/export.html"):
        assert "It was stopped by choice" in client.get(page).text


def test_every_source_of_a_run_is_cited_with_its_parts():
    by_setting = (statements.COUNTED_WITH, statements.SAMPLED)
    keys = {"abadi", *statements.AUTOMATIC}
    keys |= {key for table in by_setting for of in table.values() for key in of}
    text = bibtex(sorted(keys))
    entries = text.split("\n\n")
    assert len(entries) == len(keys) == len({e.split(",")[0] for e in entries})
    for entry, key in zip(entries, sorted(keys), strict=True):
        source = SOURCES[key]
        assert entry.startswith("@misc{")
        assert f"title = {{{{{source.title}}}}}" in entry
        assert f"year = {{{source.year}}}" in entry
        assert source.arxiv in entry
        assert entry.count("{") == entry.count("}")
        [authors] = re.findall(r"author = \{(.*)\}", entry)
        assert "," not in authors
        assert authors.split(" and ")[0] == re.split(r",| and ", source.authors)[0]


def test_the_page_of_a_run_holds_what_to_take_along(client, store, finished):
    page = client.get(f"/runs/{finished}/").text
    assert "@misc{abadi2016," in page
    assert "@misc{zhu2022," in page
    assert f"{RUNS}/{finished}/card.svg" in page
    assert "weights.safetensors" not in page


def test_weights_are_downloaded_from_the_page_once_there_are_some(
    client, store, run_id
):
    path = f"{RUNS}/{run_id}/weights.safetensors"
    error_of(client.get(path), 404, says="has no weights")
    claim = store.leases.claim(run_id)
    store.leases.append(claim, recorded_events())
    store.leases.save_weights(claim, b"weights of a model")
    store.leases.finish(claim, "done")
    answer = client.get(path)
    assert answer.data == b"weights of a model"
    assert f"dpsgd-run-{run_id[:8]}.safet" in answer.headers["Content-Disposition"]
    assert path in client.get(f"/runs/{run_id}/").text


def test_a_card_shows_the_epsilon_in_odds_and_is_a_picture_by_itself(client, finished):
    answer = client.get(f"{RUNS}/{finished}/card.svg")
    assert answer.mimetype == "image/svg+xml"
    root = ET.fromstring(answer.text)
    assert root.get("viewBox") == f"0 0 {cards.WIDTH} {cards.HEIGHT}"
    words = " ".join(root.itertext())
    assert "ε = 1.00" in words
    assert "84.0 %" in words
    run = TrainingConfig.parse(SMALL).plan.phases
    assert f"is right at most (a coin: 50 %) {Limits.of(run, 1.0, 1e-5)}" in words
    left = [text for text in root.iter() if text.get("x") == "64"]
    for text in left[3:]:  # small print: half an em per letter, beside the chart
        width = 0.52 * float(text.get("font-size")) * len(text.text)
        assert 64 + width < cards.PLOT[0] - 50, text.text
    for foreign in ("class=", "href=", "style=", "<script"):
        assert foreign not in answer.text


def test_a_card_of_a_run_without_noise_says_that_it_is_not_private(client, store):
    run_id = client.post(RUNS, json=SMALL | {"private": False}).json["id"]
    ended(store, run_id, WITHOUT_NOISE)
    text = client.get(f"{RUNS}/{run_id}/card.svg").text
    assert "no noise: not private" in text
    assert "is right at most" not in text


def test_there_is_no_card_of_a_run_that_goes_on_or_has_no_accuracy(client, run_id):
    error_of(client.get(f"{RUNS}/{run_id}/card.svg"), 404, says="has no card")
    regression = client.post(RUNS, json={"kind": "regression"}).json["id"]
    error_of(client.get(f"{RUNS}/{regression}/card.svg"), 404)


@pytest.mark.parametrize("points", [[], [(0.0, 0.0)], [(1.0, 1.0), (2.0, 1.0)]])
def test_a_card_is_drawn_of_any_curve(points):
    card = Card(
        title='<&"',
        accuracy="",
        epsilon="3.00",
        spent=3.0,
        delta=1e-5,
        status="exact",
        points=points,
        budget=3.0,
    )
    text = share_card(card)
    ET.fromstring(text)
    assert "not private" not in text
    assert "not private" in share_card(replace(card, is_own=True))
    assert "nan" not in text
    assert "inf" not in text
