"""Pages, answers and files of a run with random allocation name its sampling."""

import html

import pytest

from dpsgd_explorer.experiments.events import Event
from dpsgd_explorer.experiments.groups import RunGroup
from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.web.questions.privacy import rounded
from dpsgd_explorer.web.run_views.registry import VIEWS
from tests.web.conftest import PHASE, SMALL, ended, error_of, recorded_events

SLOTS = 4
POISSON = SMALL | {"audit": 0, "expected_batch_size": 8200, "steps": 4}
POISSON |= {"noise_multiplier": 1.5, "target_epsilon": None}
ALLOCATED = POISSON | {"sampling": "random_allocation"}


@pytest.fixture
def done(client, store):
    """Make a run with a log of its own; return its id."""

    def make(settings):
        config = TrainingConfig.parse(settings)
        slots = {} if config.plan.slots is None else {"slots": config.plan.slots}
        phase = PHASE | {
            "sample_rate": config.plan.sample_rate,
            "noise_multiplier": 1.5,
            "steps": 4,
            "step": 0,
            "delta": config.delta,
        }
        run_id = client.post("/api/v1/runs", json=settings).json["id"]
        events = [Event("phase", phase | slots), *recorded_events()[1:]]
        return ended(store, run_id, events)

    return make


def test_page_report_and_script_name_the_sampling(client, done):
    run_id = done(ALLOCATED)
    page = html.unescape(client.get(f"/runs/{run_id}/").text)
    assert "one record, random allocation; accountant" in page
    assert "Sampling: random allocation, 4 steps; in each epoch of 4 steps" in page
    assert "2502.08202" in page  # the reference of the statement
    assert "Poisson sampling" not in page
    report = client.get(f"/api/v1/runs/{run_id}/export.html").text
    assert "with random allocation, by accountant exact" in report
    assert "Poisson" not in report
    script = client.get(f"/api/v1/runs/{run_id}/export.py").text
    assert "random_allocation" in script
    compile(script, "repeat.py", "exec")


def test_the_log_is_enough_to_count_again(client, done):
    address = f"/api/v1/runs/{done(ALLOCATED)}/epsilon"
    answer = client.get(address).json
    truth = TrainingConfig.parse(ALLOCATED).plan.epsilon()
    assert answer["epsilon"] == rounded(truth)
    assert answer["sampling"] == "random_allocation"
    refused = client.get(address, query_string={"accountant": "rdp"})
    assert "Only the exact accountant" in error_of(refused, 422)["message"]


def test_a_comparison_shows_that_the_samplings_differ(client, done):
    runs = [done(POISSON), done(ALLOCATED)]
    page = client.get(f"/runs/compare?ids={','.join(runs)}").text
    assert page.count("random_allocation") + page.count("Random allocation") > 0


def test_a_sweep_compares_samplings():
    variations = [{"sampling": name} for name in ("poisson", "random_allocation")]
    group = RunGroup.parse("sweep", POISSON, variations)
    assert group.label(group.configs[1]) == "Sampling: random_allocation"


def test_the_sampling_matters_without_privacy_too():
    config = TrainingConfig.parse(ALLOCATED | {"private": False})
    assert VIEWS["training"].counts("sampling", config.model_dump())


def test_canaries_are_advised_only_where_they_can_be_added(client, done):
    allocated = client.get(f"/runs/{done(ALLOCATED)}/").text
    assert "here they cannot audit random allocation" in allocated
    assert "2,000 canaries" not in allocated
    assert (
        "Train again with 2,000 canaries" in client.get(f"/runs/{done(POISSON)}/").text
    )
