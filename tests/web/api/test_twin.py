"""The run without privacy that a private training is shown beside."""

import pytest

from dpsgd_explorer.experiments.events import Event
from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.web.questions.twin import twin_model
from tests.web.conftest import SMALL, ended, error_of, recorded_events

PLAIN = SMALL | {"private": False, "target_epsilon": None, "learning_rate": 0.5}
RECORDED = [
    ("mnist", "scattering_linear"),
    ("mnist", "logistic"),
    ("adult", "logistic"),
]


def launched(client, **settings):
    return client.post("/api/v1/runs", json=SMALL | settings).json


def twin_of(client, run, **query):
    return client.get(run["links"]["twin"], query_string=query).json


@pytest.fixture
def plain_run(client, store):
    """Make a finished run without privacy; its log holds three models."""

    def make_run(**settings):
        run = client.post("/api/v1/runs", json=PLAIN | settings).json
        first, *rest = recorded_events()
        models = [Event("model", {"step": step, "weights": None}) for step in (0, 2, 4)]
        ended(store, run["id"], [first, *models, *rest])
        return run

    return make_run


def test_the_recorded_twin_is_shown_until_an_own_one_is_chosen(client, plain_run):
    private, plain = launched(client), plain_run()
    answer = twin_of(client, private)
    assert (answer["source"], answer["page"]) == ("recorded", None)
    assert "learning rate 2, which was tuned for it" in answer["note"]
    assert answer["is_tuned"]
    [choice] = answer["choices"]
    assert (choice["id"], choice["learning_rate"]) == (plain["id"], 0.5)
    chosen = twin_of(client, private, own=plain["id"])
    assert (chosen["source"], chosen["page"]) == ("run", plain["links"]["page"])
    assert [model["step"] for model in chosen["models"]] == [0, 4]
    assert f"your run “{choice['name']}”" in chosen["note"]
    assert "learning rate 0.5, not the tuned 2" in chosen["note"]
    assert chosen["shares_batches"]
    assert not chosen["is_tuned"]
    assert chosen["choices"] == answer["choices"]


def test_an_own_twin_at_the_tuned_rate_is_as_good_as_the_recorded_one(
    client, plain_run
):
    private, plain = launched(client), plain_run(learning_rate=2.0)
    chosen = twin_of(client, private, own=plain["id"])
    assert chosen["is_tuned"]
    assert chosen["note"].endswith("learning rate 2.")


def test_two_people_read_the_same_of_one_link(client, other_visitor, plain_run):
    private = launched(client)
    plain_run()
    mine, theirs = twin_of(client, private), twin_of(other_visitor, private)
    assert theirs["choices"] == []
    assert mine | {"choices": []} == theirs


@pytest.mark.parametrize(
    "changes", [{"seed": 8}, {"expected_batch_size": 512}, {"steps": 5}], ids=str
)
def test_a_run_of_other_batches_is_no_twin(client, plain_run, changes):
    private = launched(client)
    other = plain_run(**changes)
    assert twin_of(client, private)["choices"] == []
    answer = client.get(private["links"]["twin"], query_string={"own": other["id"]})
    assert error_of(answer, 422, says="one of your finished runs")["field"] == "own"


def test_a_twin_that_goes_on_and_one_of_somebody_else_are_not_shown(
    client, other_visitor, plain_run
):
    going = client.post("/api/v1/runs", json=PLAIN | {"steps": 6}).json
    assert going["state"] == "queued"
    assert twin_of(client, launched(client, steps=6))["choices"] == []
    private, plain = launched(client), plain_run()
    asked = {"own": plain["id"]}
    answer = other_visitor.get(private["links"]["twin"], query_string=asked)
    assert error_of(answer, 422)["field"] == "own"


@pytest.mark.parametrize(("dataset", "model"), RECORDED)
def test_a_twin_model_is_a_run_without_privacy_and_shows_its_model(dataset, model):
    twin = twin_model(dataset, model)
    assert (twin.config.dataset, twin.config.model) == (dataset, model)
    assert not twin.config.private
    start, end = twin.models
    assert (start["step"], end["step"]) == (0, twin.config.plan.steps)
    assert start["weights"].keys() == end["weights"].keys()
    assert sum(map(sum, end["confusion"])) == twin.config.data.test_size
    assert bool(end["misread"]) == bool(end["pictures"]) == (dataset == "mnist")


def test_a_twin_model_says_what_it_shares(client):
    default = TrainingConfig.parse({}).model_dump(exclude={"kind"}, exclude_none=True)
    same = client.post("/api/v1/runs", json=default).json
    other = client.post("/api/v1/runs", json=default | {"seed": 8}).json
    assert "the same batches and first parameters" in twin_of(client, same)["note"]
    assert "with other settings" in twin_of(client, other)["note"]
    assert "seed 7" in twin_of(client, other)["note"]
    assert [twin_of(client, run)["shares_batches"] for run in (same, other)] == [
        True,
        False,
    ]


def test_a_model_that_nobody_recorded_has_no_twin(client):
    run = client.post("/api/v1/runs", json={"model": "mlp", "steps": 3}).json
    assert twin_of(client, run) == {
        "source": "none",
        "title": "",
        "note": "",
        "page": None,
        "shares_batches": False,
        "is_tuned": False,
        "models": [],
        "choices": [],
    }


def test_only_a_training_has_a_twin(client):
    run = client.post("/api/v1/runs", json={"kind": "engines"}).json
    answer = client.get(run["links"]["twin"])
    assert error_of(answer, 422)["field"] == "kind"
