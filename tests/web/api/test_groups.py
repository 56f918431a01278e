"""Launching, reading and ending groups of runs, and their page."""

import html
import json
import re

import pytest

from dpsgd_explorer import accounting
from dpsgd_explorer.experiments.events import Event
from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.web.recorded.files import FOLDER
from dpsgd_explorer.web.recorded.runs import recorded
from tests.web.conftest import SMALL, ended, error_of, recorded_events

GROUPS = "/api/v1/groups"
RATES = [{"learning_rate": rate} for rate in (1, 2, 4)]
SWEEP = {"purpose": "sweep", "base": SMALL, "variations": RATES}
TWIN = {
    "purpose": "twin",
    "base": SMALL,
    "variations": [
        {"learning_rate": 4},
        {"noise_multiplier": 0, "learning_rate": 16},
        {"private": False, "learning_rate": 0.5},
    ],
}
SEEDS = {
    "purpose": "seeds",
    "base": SMALL,
    "variations": [{"seed": seed} for seed in range(1, 6)],
}


def page_data(page):
    """Return the data that a page sends to its script."""
    return json.loads(re.search(r'id="page-data">(.*?)</script>', page, re.DOTALL)[1])


@pytest.fixture
def group(client):
    return client.post(GROUPS, json=SWEEP).json


def test_a_launch_answers_where_the_group_is(client):
    answer = client.post(GROUPS, json=SWEEP)
    assert answer.status_code == 201
    assert answer.headers["Location"] == f"{GROUPS}/{answer.json['id']}"
    shown = client.get(answer.headers["Location"]).json
    assert shown == answer.json
    assert (shown["ended"], shown["total"], shown["share"]) == (0, 3, 0)
    assert shown["mine"] is True
    assert [run["config"]["learning_rate"] for run in shown["runs"]] == [1, 2, 4]


def test_a_launch_rings_for_every_run(app, client):
    huey = app.extensions["doorbell"].huey
    before = huey.pending_count()
    client.post(GROUPS, json=SWEEP)
    assert huey.pending_count() == before + 3


@pytest.mark.parametrize(
    ("change", "field", "says"),
    [
        ({"variations": [{"learning_rate": -1}, *RATES]}, "variations", "run 1: "),
        ({"variations": [{"seed": i} for i in range(21)]}, "variations", "got 21"),
        ({"base": SMALL | {"delta": 2}}, "delta", "delta must be less than 1"),
        ({"base": SMALL | {"kind": "engines"}}, "kind", "kind"),
        ({"base": "x"}, "base", "object"),
        ({"variations": [1, 2]}, "variations", "object"),
        ({"purpose": None}, "purpose", "text"),
        ({"more": 1}, "more", "unknown"),
    ],
)
def test_a_wrong_group_is_refused_at_its_place(client, store, change, field, says):
    error_of(client.post(GROUPS, json=SWEEP | change), 422, field, says)
    assert store.counts()["queued"] == 0


def test_a_group_says_how_far_it_is(client, store, group):
    first, second, _ = (run["id"] for run in group["runs"])
    ended(store, first, recorded_events())
    claim = store.leases.claim(second)
    store.leases.append(claim, recorded_events()[:3])  # two of four steps
    answer = client.get(group["links"]["self"]).json
    assert (answer["ended"], answer["total"], answer["has_ended"]) == (1, 3, False)
    assert answer["share"] == pytest.approx((1 + 0.5) / 3)
    assert answer["runs"][0]["privacy"]["epsilon_text"] == "1.00"


def test_what_all_runs_spend_together_is_their_composition(client, store, group):
    [plan] = {
        (config.plan.sample_rate, config.plan.noise_multiplier, config.plan.steps)
        for run in store.group(group["id"]).runs
        if (config := TrainingConfig.parse(run.config))
    }
    rate, noise, steps = plan
    expected = accounting.epsilon(
        sample_rate=rate, noise_multiplier=noise, steps=3 * steps, delta=1e-5
    )
    together = group["together"]
    assert expected <= together["epsilon"] <= expected + 1e-4
    assert (together["status"], together["delta"]) == ("exact", 1e-5)
    assert together["epsilon"] > group["runs"][0]["config"]["target_epsilon"]


REPEATED = [variation | {"seed": seed} for seed in (1, 2, 3) for variation in RATES]


def test_seeds_of_a_sweep_are_runs_that_spend_together(client, group):
    answer = client.post(GROUPS, json=SWEEP | {"variations": REPEATED}).json
    assert answer["total"] == 9
    assert answer["together"]["epsilon"] > group["together"]["epsilon"]
    page = client.get(answer["links"]["page"]).text
    assert f"= {answer['together']['epsilon_text']}" in page.replace(
        "<var>ε</var>", "ε"
    )
    # Of the comb(6, 3) ways to deal six results to two values, two do not overlap.
    assert "in 10 % of cases" in page
    data = page_data(page)
    assert [m["together"] for m in data["members"]] == [
        text for text in ("1", "2", "4") for _ in range(3)
    ]
    assert [words for _, words in data["values"]["ticks"]] == ["1", "2", "4"]
    labels = [member["label"] for member in data["members"]]
    assert labels[:4] == ["1, seed 1", "1, seed 2", "1, seed 3", "2, seed 1"]


def test_choices_of_a_sweep_with_seeds_have_one_place_each(client):
    variations = [
        {"optimizer": name, "seed": seed} for seed in (1, 2) for name in ("sgd", "adam")
    ]
    answer = client.post(GROUPS, json=SWEEP | {"variations": variations})
    data = page_data(client.get(answer.json["links"]["page"]).text)
    assert [member["place"] for member in data["members"]] == [1, 1, 2, 2]


def test_a_sweep_with_one_run_of_each_value_claims_no_luck(client, group):
    page = client.get(group["links"]["page"]).text
    assert {member["together"] for member in page_data(page)["members"]} == {""}
    assert "% of cases" not in page
    assert "cannot tell a difference" in page


def test_runs_without_noise_have_no_guarantee_together(client):
    assert client.post(GROUPS, json=TWIN).json["together"] is None


def test_a_run_that_was_changed_while_it_trained_leaves_no_plan(client, store, group):
    phase, *rest = recorded_events()
    changes = {"step": 2, "changes": {"noise_multiplier": 0.1}}
    changed = Event("phase", phase.data | changes)
    ended(store, group["runs"][0]["id"], [phase, *rest[:3], changed, *rest[3:]])
    assert client.get(group["links"]["self"]).json["together"] is None
    page = client.get(group["links"]["page"]).text
    assert "was changed while it trained" in page


def test_events_of_all_runs_come_in_one_list(client, store, group):
    ended(store, group["runs"][1]["id"], recorded_events())
    log = client.get(group["links"]["log"]).json
    of_second = [e for e in log["events"] if e["run_id"] == group["runs"][1]["id"]]
    kinds = [event["kind"] for event in of_second]
    assert kinds == ["state", "state", "phase", *["evaluation"] * 2, "end", "state"]
    after = client.get(f"{group['links']['log']}?after={log['events'][-1]['id']}")
    assert after.json == {"has_ended": False, "events": []}
    error_of(client.get(f"{group['links']['log']}?after=x"), 422, "after")


def test_a_group_is_cancelled_and_deleted_by_its_visitor_only(
    client, other_visitor, group
):
    other_visitor.post(GROUPS, json=SWEEP)
    links = group["links"]
    error_of(other_visitor.post(links["cancel"], json={}), 404)
    error_of(other_visitor.delete(links["self"]), 404)
    answer = client.post(links["cancel"], json={}).json
    assert {run["state"] for run in answer["runs"]} == {"cancelled"}
    assert answer["has_ended"] is True
    assert client.delete(links["self"]).status_code == 204
    error_of(client.get(links["self"]), 404)
    error_of(client.get(links["log"]), 404)


def test_whoever_has_the_link_may_read_and_is_not_told_whose_it_is(
    other_visitor, store, group
):
    visitor = store.group(group["id"]).visitor
    answer = other_visitor.get(group["links"]["self"])
    assert answer.json["mine"] is False
    page = other_visitor.get(group["links"]["page"])
    assert visitor not in answer.text + page.text
    assert "Delete this group" not in page.text
    assert "data-cancel" not in page.text


@pytest.mark.parametrize(
    ("body", "title"),
    [
        (SWEEP, "Sweep: learning rate η"),
        (SEEDS, "The same settings, 5 seeds"),
        (TWIN, "Three-way twin"),
        (SWEEP | {"variations": [{"seed": 1}, {"seed": 2}]}, "Sweep: seed"),
        (
            SWEEP | {"variations": [{"optimizer": "sgd"}, {"optimizer": "adam"}]},
            "Sweep: optimizer",
        ),
    ],
)
def test_every_purpose_has_its_page(client, body, title):
    answer = client.post(GROUPS, json=body)
    assert answer.status_code == 201, answer.text
    page = client.get(answer.json["links"]["page"]).text
    assert f"<h1>{title}</h1>" in page
    for run in answer.json["runs"]:
        assert f'data-member="{run["id"]}"' in page
    together = answer.json["together"]
    assert (together is None) == (body is TWIN)
    assert (f"= {together['epsilon_text']}" if together else "ε = ∞") in page.replace(
        "<var>ε</var>", "ε"
    )


def test_the_page_of_a_group_that_is_not_there_says_so(client):
    answer = client.get("/groups/none/", headers={"Accept": "text/html"})
    assert answer.status_code == 404
    assert "does not exist on this site" in answer.text


def test_the_trainer_suggests_rates_of_each_data_set_and_model(client):
    page = client.get("/train/").text
    rates = json.loads(html.unescape(re.search(r'data-rates="(.*?)"', page)[1]))
    assert rates["clipped"] == {"scattering_linear": {"mnist": 4.0}}
    for path in FOLDER.glob("*-twin.json"):
        twin = recorded(path.stem).config
        assert rates["ordinary"][twin.model][twin.dataset] == twin.learning_rate


def test_a_run_leads_to_its_group_and_a_name_of_ones_own_to_nothing(client, group):
    page = client.get(group["runs"][0]["links"]["page"]).text
    assert f'<a href="{group["links"]["page"]}">Sweep, 3 runs</a>' in page
    alone = client.post("/api/v1/runs", json=SMALL | {"group": "mine"}).json
    assert "/groups/" not in client.get(alone["links"]["page"]).text


def test_the_page_of_a_group_says_that_its_deletion_can_be_undone(client, group):
    page = client.get(group["links"]["page"]).text
    assert "for good" not in page
    assert "You can undo this for ten seconds" in page
    client.delete(group["links"]["self"])
    listed = client.get("/runs/").text
    assert listed.count("data-restore>") == len(group["runs"])
