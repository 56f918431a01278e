"""Pages, answers and files of a run with correlated noise name its sampling."""

import html

import pytest

from dpsgd_explorer.experiments.events import Event
from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.web.questions.privacy import rounded
from dpsgd_explorer.web.run_views.registry import VIEWS
from tests.web.conftest import PHASE, SMALL, ended, recorded_events

INDEPENDENT = SMALL | {"noise_multiplier": 1.5, "target_epsilon": None, "audit": 0}
CORRELATED = INDEPENDENT | {"noise_bands": 2}


@pytest.fixture
def done(client, store):
    """Make a run with a log of its own; return its id."""

    def make(settings):
        bands = {"bands": settings.get("noise_bands", 1)}
        run_id = client.post("/api/v1/runs", json=settings).json["id"]
        events = [Event("phase", PHASE | bands), *recorded_events()[1:]]
        return ended(store, run_id, events)

    return make


def test_page_report_and_script_name_noise_and_sampling(client, done):
    run_id = done(CORRELATED)
    page = html.unescape(client.get(f"/runs/{run_id}/").text)
    assert "one record, cyclic Poisson sampling; accountant" in page
    assert "every record is in one of 2 groups, which take turns; each of 4" in page
    assert "correlated with the noise of the step before by a banded Toeplitz" in page
    assert "2306.08153" in page  # the reference of the statement
    assert "here they cannot audit correlated noise" in page
    report = html.unescape(client.get(f"/api/v1/runs/{run_id}/export.html").text)
    assert "with cyclic Poisson sampling, by accountant exact" in report
    script = client.get(f"/api/v1/runs/{run_id}/export.py").text
    assert "noise_bands" in script
    compile(script, "repeat.py", "exec")


def test_the_log_is_enough_to_count_again(client, done):
    address = f"/api/v1/runs/{done(CORRELATED)}/epsilon"
    plan = TrainingConfig.parse(CORRELATED).plan
    answer = client.get(address).json
    assert answer["epsilon"] == rounded(plan.epsilon())
    assert answer["sampling"] == "cyclic_poisson"
    curve = dict(zip(answer["curve"]["steps"], answer["curve"]["epsilon"], strict=True))
    assert curve[1] == curve[2] == pytest.approx(plan.epsilon(2), abs=1e-3)
    by_rdp = client.get(address, query_string={"accountant": "rdp"}).json
    assert by_rdp["epsilon"] > answer["epsilon"]


def test_settings_of_an_old_run_lack_the_setting(client, done):
    run_id = done(INDEPENDENT)
    stored = TrainingConfig.parse(INDEPENDENT).model_dump(mode="json")
    del stored["noise_bands"]
    assert VIEWS["training"].terms(stored).sampling == "poisson"
    assert "Sampling: Poisson" in html.unescape(client.get(f"/runs/{run_id}/").text)


def test_a_comparison_shows_that_the_noise_differs(client, done):
    runs = [done(INDEPENDENT), done(CORRELATED)]
    page = client.get(f"/runs/compare?ids={','.join(runs)}").text
    assert "Noise bands (correlated noise)" in page
