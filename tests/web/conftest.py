"""The real application on a store of its own, without a worker.

Runs are brought forward by the store's own worker methods, so every answer here is
read from rows that were really written.
"""

import dataclasses
import shutil
from contextlib import ExitStack, contextmanager

import pytest
from jinja2 import BytecodeCache

from dpsgd_explorer.experiments.events import Event
from dpsgd_explorer.settings import Settings
from dpsgd_explorer.web import create_app, open_services
from dpsgd_explorer.web.http import assets
from tests.web.reading import Reader

SMALL = {
    "dataset": "adult",
    "model": "logistic",
    "expected_batch_size": 4096,
    "steps": 4,
    "target_epsilon": 1.0,
    "evaluations": 2,
}
PHASE = {
    "step": 0,
    "sample_rate": 4096 / 32_561,
    "noise_multiplier": 1.5,
    "delta": 1e-5,
    "steps": 4,
}
STEP = {
    "diagnostics": {
        "loss": 0.5,
        "clipped_fraction": 0.25,
        "norm_counts": [1, 2],
        "noise_to_signal": 3.0,
        "batch_size": 250,
        "non_finite": 0,
    }
}


class CompiledTemplates(BytecodeCache):
    """What the first application made of the templates, for those after it."""

    def __init__(self):
        self._code = {}

    def load_bytecode(self, bucket):
        if code := self._code.get((bucket.key, bucket.checksum)):
            bucket.bytecode_from_string(code)

    def dump_bytecode(self, bucket):
        self._code[bucket.key, bucket.checksum] = bucket.bytecode_to_string()


COMPILED = CompiledTemplates()


@pytest.fixture(scope="session")
def shelf(tmp_path_factory):
    """Publish the static files once: compressing plotly.js takes a while."""
    instance_dir = tmp_path_factory.mktemp("published")
    assets.publish(assets.FRONT_DIR / "static", instance_dir)
    return instance_dir / "assets"


@pytest.fixture(scope="session")
def settings_in(shelf, blank_database):
    """Give the settings of a folder, which gets what each new installation has."""

    def settings_in(folder):
        (folder / "assets").symlink_to(shelf)
        shutil.copyfile(blank_database, folder / "runs.sqlite3")
        return Settings.from_environment(
            {"DPSGD_INSTANCE_DIR": str(folder), "DPSGD_WORKERS": "1"}
        )

    return settings_in


@contextmanager
def application(settings):
    """The real application, closed at the end."""
    app = create_app(settings)
    app.testing = True
    app.jinja_env.bytecode_cache = COMPILED
    yield app
    close(app)


def close(app):
    app.extensions["run_store"].database.close()
    app.extensions["doorbell"].huey.storage.close()


@pytest.fixture(scope="session")
def common(settings_in, tmp_path_factory):
    """An application for all tests that leave its routes and settings as they are."""
    with application(settings_in(tmp_path_factory.mktemp("common"))) as app:
        pass
    return app


@pytest.fixture(scope="session")
def reading(settings_in, tmp_path_factory):
    """A client of one application, for tests that only read its pages."""
    with application(settings_in(tmp_path_factory.mktemp("reading"))) as app:
        yield app.test_client()


@pytest.fixture(scope="session")
def read(reading):
    """Chapters by slug, each fetched once."""
    return Reader(reading)


@pytest.fixture
def settings(settings_in, tmp_path):
    return settings_in(tmp_path)


@pytest.fixture
def make_app(settings):
    """Build an application of the test's own, with some settings changed."""
    with ExitStack() as made:
        yield lambda **changes: made.enter_context(
            application(dataclasses.replace(settings, **changes))
        )


@pytest.fixture
def app(common, settings):
    """The application on a store of its own."""
    common.extensions |= open_services(settings)
    yield common
    close(common)


@pytest.fixture
def client(app):
    return app.test_client()


@pytest.fixture
def other_visitor(app):
    """Another visitor."""
    return app.test_client()


@pytest.fixture
def store(app):
    return app.extensions["run_store"]


@pytest.fixture
def run_id(client):
    """A queued run of ``client``."""
    return client.post("/api/v1/runs", json=SMALL).json["id"]


@pytest.fixture
def finished(store, run_id):
    """A run of ``client`` that a worker has taken to its end."""
    return ended(store, run_id, recorded_events())


def ended(store, run_id, events, state="done"):
    """Give a queued run its log and its end, as a worker does; return its id."""
    claim = store.leases.claim(run_id)
    store.leases.append(claim, events)
    store.leases.finish(claim, state)
    return run_id


def recorded_events():
    """What a run of four steps with two evaluations says."""
    steps = [
        Event("step", {"step": i, "epsilon": 0.25 * i, "seconds": 0.5 * i, **STEP})
        for i in range(1, 5)
    ]
    measured = {"test_accuracy": 0.84, "test_loss": 0.4, "seconds": 2.5}
    early = Event("evaluation", {"step": 2, "epsilon": 0.5, **measured})
    late = Event("evaluation", {"step": 4, "epsilon": 0.99999, **measured})
    end = Event("end", {"step": 4, "epsilon": 0.99999, "delta": 1e-5, **measured})
    return [Event("phase", PHASE), *steps[:2], early, *steps[2:], late, end]


def error_of(response, status, field=None, says=""):
    """Return the error object after checking status and shape, field and words."""
    assert response.status_code == status, response.text
    assert response.mimetype == "application/json"
    assert set(response.json) == {"error"}
    error = response.json["error"]
    assert {"code", "message"} <= set(error)
    assert set(error) <= {"code", "message", "field", "fields", "retry_after"}
    assert field is None or error["field"] == field
    assert says in error["message"]
    return error
