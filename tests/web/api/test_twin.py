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


def twin_of(client, run):
    return client.get(run["links"]["twin"]).json


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


def test_a_visitors_own_run_of_the_same_batches_is_the_twin(client, plain_run):
    private, plain = launched(client), plain_run()
    answer = twin_of(client, private)
    assert (answer["source"], answer["page"]) == ("run", plain["links"]["page"])
    assert [model["step"] for model in answer["models"]] == [0, 4]
    assert "your own run" in answer["note"]
    assert "learning rate 0.5" in answer["note"]
    assert answer["shares_batches"]


@pytest.mark.parametrize(
    "changes", [{"seed": 8}, {"expected_batch_size": 512}, {"steps": 5}], ids=str
)
def test_a_run_of_other_batches_is_no_twin(client, plain_run, changes):
    private = launched(client)
    plain_run(**changes)
    assert twin_of(client, private)["source"] == "recorded"


def test_a_twin_that_goes_on_and_one_of_somebody_else_are_not_shown(
    client, other_visitor, plain_run
):
    going = client.post("/api/v1/runs", json=PLAIN | {"steps": 6}).json
    assert going["state"] == "queued"
    assert twin_of(client, launched(client, steps=6))["source"] == "recorded"
    private = launched(client)
    plain_run()
    assert twin_of(other_visitor, private)["source"] == "recorded"


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
        "models": [],
    }


def test_only_a_training_has_a_twin(client):
    run = client.post("/api/v1/runs", json={"kind": "engines"}).json
    answer = client.get(run["links"]["twin"])
    assert error_of(answer, 422)["field"] == "kind"
