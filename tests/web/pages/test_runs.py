"""The list of runs and the page of one, as the server sends them."""

import json
import re

import pytest
from sqlalchemy import update
from sqlalchemy.event import listens_for, remove

from dpsgd_explorer.experiments.events import Event
from dpsgd_explorer.experiments.kinds import LAUNCHED
from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.runs.store.schema import runs
from dpsgd_explorer.web.pages.runs import EXPORTS, LATEST
from dpsgd_explorer.web.questions.plan_preview import plan_of
from tests.web.conftest import SMALL, ended, recorded_events


def rows_of(page):
    """Return the rows of the table, each as the text of its cells but the box."""
    bodies = re.findall(r"<tbody>(.*?)</tbody>", page, re.DOTALL)
    rows = re.findall(r"<tr[^>]*>(.*?)</tr>", "".join(bodies), re.DOTALL)
    return [
        [
            " ".join(re.sub(r"<[^>]+>", " ", cell).split())
            for cell in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL)
            if 'name="ids"' not in cell
        ]
        for row in rows
    ]


def launch(client, **changes):
    return client.post("/api/v1/runs", json=SMALL | changes).json["id"]


def test_without_a_run_the_list_says_what_will_be_there(client):
    page = client.get("/runs/").text
    assert "You have no runs yet" in page
    assert not rows_of(page)


def test_the_list_shows_what_each_run_spent_and_reached(client, finished):
    [row] = rows_of(client.get("/runs/").text)
    assert row[0].startswith("Adult income, ε = 1")
    assert row[1:6] == ["first run", "1.00", "84.0 %", "2.5", "Finished"]


def test_the_newest_stands_first_with_what_differs_from_the_one_before(client):
    launch(client)
    launch(client, max_grad_norm=0.5, seed=9)
    launch(client, max_grad_norm=0.5, seed=9)
    newest, middle, oldest = rows_of(client.get("/runs/").text)
    assert newest[1] == "same settings"
    assert middle[1] == "clipping bound C 0.1 → 0.5; seed 7 → 9"
    assert oldest[1] == "first run"


@pytest.mark.parametrize("kind", LAUNCHED)
def test_the_steps_of_a_bar_have_their_word_before_its_script(client, kind):
    small = SMALL if kind == "training" else {"kind": kind}
    launched = client.post("/api/v1/runs", json=small)
    page = client.get(f"/runs/{launched.json['id']}/").text
    details = re.findall(r'data-status="detail">([^<]+)<', page)
    assert details or 'data-status="detail"' not in page
    for detail in details:
        assert re.fullmatch(r"(step|training) 0 of [\d,]+", detail)


def test_the_bar_of_a_finished_run_is_filled_before_its_script(client, finished):
    """Without a script it said that a set-up was ready."""
    page = client.get(f"/runs/{finished}/").text
    bar = re.search(r'<dl class="status-bar">(.*?)</dl>', page, re.DOTALL)[1]
    cells = " ".join(re.sub(r"<[^>]+>", " ", bar).split())
    steps = SMALL["steps"]
    start = f"This run Finished step {steps} of {steps} Time left – ε spent 1.00"
    assert cells.startswith(start)
    assert cells.endswith("Accuracy 84.0 %")
    assert "Ready" not in cells


def test_many_differences_are_counted_beyond_the_third(client):
    launch(client)
    launch(client, seed=1, momentum=0.5, learning_rate=1, steps=5, evaluations=3)
    assert rows_of(client.get("/runs/").text)[0][1].endswith("; and 2 more")


def test_a_setting_that_was_not_set_before_is_said_so(client):
    launch(client)
    other = {name: SMALL[name] for name in SMALL if name != "target_epsilon"}
    client.post("/api/v1/runs", json=other | {"noise_multiplier": 2.0})
    changed = rows_of(client.get("/runs/").text)[0][1]
    assert changed == "target ε 1 → not set; noise multiplier σ not set → 2"


def test_another_visitor_sees_none_of_it_in_the_list(client, other_visitor, finished):
    assert finished not in other_visitor.get("/runs/").text


def test_the_trainer_gets_the_latest_rows_alone(client, finished):
    page = client.get("/runs/latest/").text
    assert "<html" not in page
    assert len(rows_of(page)) == 1


def test_a_deleted_run_leaves_the_list_and_can_be_restored_from_it(client, finished):
    page = client.get("/runs/").text
    assert "data-undo=" not in page
    address = re.search(r'data-delete="([^"]+)"', page)[1]
    assert client.delete(address).status_code == 204
    page = client.get("/runs/").text
    assert not rows_of(page)
    [line] = re.findall(r'data-undo="([^"]+)" data-seconds="([\d.]+)"', page)
    assert 0 < float(line[1]) <= 10
    assert client.post(line[0], json={}).status_code == 200
    page = client.get("/runs/").text
    assert len(rows_of(page)) == 1
    assert "data-undo=" not in page


def test_the_list_is_searched_filtered_and_sorted_by_its_address(client, store):
    bold = launch(client, learning_rate=40, name="The bold one")
    mild = launch(client, seed=3)
    bare = launch(client, private=False)
    ended(store, mild, recorded_events())
    unlimited = [
        Event(event.kind, {**event.data, "epsilon": None})
        for event in recorded_events()
    ]
    ended(store, bare, unlimited)
    client.patch(f"/api/v1/runs/{mild}", json={"note": "as Ann said", "starred": True})

    def listed(query):
        return re.findall(r'<tr data-run="([^"]+)"', client.get(f"/runs/?{query}").text)

    assert listed("") == [bare, mild, bold]
    assert listed("sort=date&order=asc") == [bold, mild, bare]
    assert listed("sort=name") == [bare, mild, bold]
    assert listed("sort=epsilon") == [mild, bare, bold]  # what is not known comes last
    assert listed("sort=epsilon&order=desc") == [bare, mild, bold]
    assert set(listed("sort=accuracy")[:2]) == {mild, bare}
    assert listed("q=BOLD") == listed("q=η+40") == listed("state=queued") == [bold]
    assert listed("q=adult++seed+3") == listed("q=+seed+3+") == [mild]
    assert len(listed("q=incom")) == 3
    assert listed("q=ncome") == listed("q=[") == listed("q=η+4") == []
    assert listed("q=ann+said") == listed("starred=1") == [mild]
    assert listed("q=ann+bold") == listed("dataset=mnist") == []
    assert len(listed("kind=training&dataset=adult")) == 3
    assert listed("kind=engines") == []
    for nonsense in ("sort=%00", "state=x", "order=up", "starred=yes", "kind=<b>"):
        assert listed(nonsense) == [bare, mild, bold]


def test_a_search_that_finds_nothing_says_so_and_leads_back(client, run_id):
    page = client.get("/runs/?q=%3Cb%3Enothing").text
    assert "None of your 1 runs matches" in page
    assert "<b>nothing" not in page


def test_long_lists_show_the_rest_when_asked(client, monkeypatch):
    monkeypatch.setattr("dpsgd_explorer.web.pages.runs.SHOWN", 2)
    for _ in range(3):
        launch(client)
    page = client.get("/runs/?sort=name").text
    assert len(rows_of(page)) == 2
    more = re.search(r'href="([^"]+)">Show 1 more', page)[1].replace("&amp;", "&")
    assert "sort=name" in more
    assert len(rows_of(client.get(more).text)) == 3


def test_a_note_and_a_star_are_for_their_visitor_alone(client, other_visitor, run_id):
    label = {"name": "mine", "note": "secret words", "starred": True}
    client.patch(f"/api/v1/runs/{run_id}", json=label)
    mine = client.get(f"/runs/{run_id}/").text
    theirs = other_visitor.get(f"/runs/{run_id}/").text
    assert "secret words" in mine
    assert 'aria-pressed="true" aria-label="Star' in mine
    assert "<h1>mine</h1>" in theirs
    assert "secret words" not in theirs
    assert "data-edit" not in theirs
    assert "data-star" not in theirs


def test_runs_of_one_configuration_are_numbered_in_list_and_page(client):
    ids = [launch(client) for _ in range(2)]
    first, second = (
        re.search(r"<h1>(.*?)</h1>", client.get(f"/runs/{run_id}/").text)[1]
        for run_id in ids
    )
    assert second == f"{first} (2)"
    shown = [row[0] for row in rows_of(client.get("/runs/").text)]
    assert shown == [second, first]


def test_a_number_is_given_once_and_never_twice(client):
    ids = [launch(client) for _ in range(3)]
    client.delete(f"/api/v1/runs/{ids[1]}")
    ids.append(launch(client))
    titles = [client.get(f"/api/v1/runs/{ids[i]}").json["title"] for i in (0, 2, 3)]
    [first, *others] = titles
    assert others == [f"{first} (3)", f"{first} (4)"]


def test_a_title_names_the_seed_only_if_another_run_differs_by_nothing_else(client):
    ids = [launch(client, seed=seed) for seed in (3, 5, 5, 3)]
    ids.append(launch(client, seed=5, learning_rate=0.125))
    titles = [client.get(f"/api/v1/runs/{i}").json["title"] for i in ids]
    first = titles[0]
    assert "seed" not in first
    seeded = f"{first} · seed 5"
    assert titles[1:4] == [seeded, f"{seeded} (2)", f"{first} (2)"]
    assert "0.125" in titles[4]
    assert "seed" not in titles[4]


def test_runs_that_are_older_than_titles_are_named_as_they_were(client, store):
    ids = [launch(client, seed=seed) for seed in (3, 3, 5)]
    titles = [client.get(f"/api/v1/runs/{run_id}").json["title"] for run_id in ids]
    with store.database.write() as connection:
        connection.execute(update(runs).values(title=None))
    shown = [row[0] for row in rows_of(client.get("/runs/latest/").text)]
    for text, title in zip(shown, titles[::-1], strict=True):
        assert re.match(rf"{re.escape(title)} \d+ \w+, \d\d:\d\d UTC", text)


def test_the_newest_rows_are_read_alone(client, store):
    """However many runs there are; the one before each of them is found too."""
    for seed in range(12):
        launch(client, seed=seed)
    asked = []

    @listens_for(store.database.engine, "before_cursor_execute")
    def note(_connection, _cursor, statement, parameters, *_rest):
        asked.append((statement, parameters))

    page = client.get("/runs/latest/").text
    remove(store.database.engine, "before_cursor_execute", note)
    limits = [p[-2] for s, p in asked if "FROM runs" in s and "LIMIT" in s]
    assert limits
    assert max(n for n in limits if isinstance(n, int)) <= LATEST
    changed = [row[1] for row in rows_of(page)]
    assert changed == [f"seed {seed - 1} → {seed}" for seed in range(11, 6, -1)]


def test_all_data_are_deleted_with_a_word_on_what_was_done(
    client, other_visitor, store, finished
):
    launch(client)
    theirs = launch(other_visitor)
    answer = client.post("/runs/forget")
    assert answer.status_code == 200
    said = re.search(r"data-said>(.*?)</p>", answer.text)[1]
    assert (
        "Deleted 2 runs with their logs, your own tables and the cookie. 2 launches"
        in said
    )
    assert "You have no runs yet" in answer.text
    assert client.get_cookie("dpsgd_visitor") is None
    assert client.get("/runs/forget").headers["Location"] == "/runs/"
    again = client.post("/runs/forget")
    assert "Deleted 0 runs" in again.text
    assert [run.id for run in store.runs_of(store.get(theirs).visitor)] == [theirs]
    assert sum(store.counts().values()) == 1


def test_no_other_site_can_have_all_data_deleted(client, finished):
    headers = {"Origin": "https://other.example", "Sec-Fetch-Site": "cross-site"}
    assert client.post("/runs/forget", headers=headers).status_code == 403
    assert len(rows_of(client.get("/runs/").text)) == 1


def test_it_says_how_long_runs_are_kept(client, make_app, run_id):
    assert "1 run, stored until you delete them" in client.get("/runs/").text
    other = make_app(keep_days=30).test_client()
    other.post("/api/v1/runs", json=SMALL)
    assert "each stored for 30 days after its end" in other.get("/runs/").text


def test_a_run_that_can_go_on_is_marked_for_the_script(client, finished):
    assert "data-active" not in client.get("/runs/").text
    launch(client)
    assert client.get("/runs/").text.count("data-active") == 1


@pytest.fixture
def page(client, finished):
    return client.get(f"/runs/{finished}/").text


def test_the_page_of_a_run_says_what_it_spent_with_its_terms(page):
    text = " ".join(re.sub(r"<[^>]+>", " ", page).split())
    assert "ε = 1.00" in text
    assert "at δ = 1e-5, add or remove one record, Poisson sampling" in text


def test_it_lists_every_setting_that_counts(page):
    terms = re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", page)
    shown = {re.sub(r"<[^>]+>", "", term).strip(): value for term, value in terms}
    assert shown["Expected batch size qN"] == "4096"
    assert shown["Train with privacy"] == "on"
    assert shown["Optimizer"] == "SGD"
    assert "Noise multiplier σ" not in shown


def test_settings_that_differ_from_the_preset_come_first_and_the_others_are_folded(
    client,
):
    run = launch(client, dataset="adult", model="logistic", learning_rate=3.25)
    page = client.get(f"/runs/{run}/").text
    first, folded = re.search(
        r"data-run-settings>(.*?)<details(.*?)</details>", page, re.DOTALL
    ).groups()
    count = int(re.search(r"<summary>(\d+) as usual", folded)[1])
    assert "3.25" in first
    assert "3.25" not in folded
    assert first.count("<dt>") < 12
    assert folded.count("<dt>") == count > 12
    assert "Copy link" in page


def test_its_settings_can_be_trained_again(client, page):
    address = re.search(r'href="(/train/\?[^"]+)"', page)[1].replace("&amp;", "&")
    again = client.get(address).text
    data = json.loads(re.search(r'id="page-data">(.*?)</script>', again, re.DOTALL)[1])
    assert data["config"] == TrainingConfig.parse(SMALL).model_dump(mode="json")


def test_its_script_gets_the_plan_and_where_the_log_is(client, page, finished):
    data = json.loads(re.search(r'id="page-data">(.*?)</script>', page, re.DOTALL)[1])
    assert data["plan"] == plan_of(TrainingConfig.parse(SMALL))
    log = client.get(data["run"]["links"]["log"])
    assert log.json["last_seq"] == data["run"]["last_seq"]


def test_each_export_it_offers_is_there(client, page):
    addresses = re.findall(r'href="([^"]+export\.\w+)"', page)
    assert len(addresses) == len(EXPORTS)
    for address in addresses:
        assert client.get(address).status_code == 200


def test_whoever_has_the_link_may_read_but_not_stop_or_delete(client, other_visitor):
    address = f"/runs/{launch(client)}/"
    mine, theirs = client.get(address).text, other_visitor.get(address).text
    assert "data-stop" in mine
    assert "data-delete" in mine
    assert "data-stop" not in theirs
    assert "data-delete" not in theirs


def test_a_name_cannot_become_markup(client):
    run_id = launch(client, name="<script>alert(1)</script>")
    for address in ("/runs/", f"/runs/{run_id}/"):
        assert "<script>alert" not in client.get(address).text


def test_an_unknown_run_is_a_page_not_found(client):
    answer = client.get("/runs/nothing/", headers={"Accept": "text/html"})
    assert answer.status_code == 404
    assert answer.mimetype == "text/html"


def test_a_run_without_noise_says_that_there_is_no_guarantee(client, store):
    run_id = launch(client, private=False)
    text = client.get(f"/runs/{run_id}/").text
    assert "without privacy" in text
    assert "not private" in text


def test_a_run_that_an_upgrade_ended_leads_to_the_one_that_begins_again(client, store):
    run_id = client.post("/api/v1/runs", json=SMALL).json["id"]
    next_id = store.leases.begin_again(store.leases.claim(run_id))
    page = client.get(f"/runs/{run_id}/").text
    assert "The site was upgraded during the run" in page
    assert f'href="/runs/{next_id}/">a run with the same settings' in page
    assert store.get(next_id).state == "queued"
