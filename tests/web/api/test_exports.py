"""A run taken away: complete, honest, and repeatable with the library."""

import csv
import functools
import html
import io
import json
import os
import re
import subprocess
import sys
import tracemalloc

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dpsgd_explorer import __version__
from dpsgd_explorer.accounting import Odometer
from dpsgd_explorer.experiments.events import Event
from dpsgd_explorer.experiments.kinds import KINDS, LAUNCHED, start
from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.operation import Operation
from dpsgd_explorer.signatures import check_signature
from dpsgd_explorer.web.forms.fields import form_fields
from dpsgd_explorer.web.http.assets import FRONT_DIR, plotly_bundle
from tests.keys import private_pem, public_pem
from tests.stored_runs import stored_search
from tests.web.conftest import SMALL, STEP, ended, error_of, recorded_events

RUNS = "/api/v1/runs"
NOT_PRIVATE = Event(
    "end",
    {"step": 4, "epsilon": None, "test_accuracy": 0.8, "test_loss": 0.5, "seconds": 1},
)
TRAINED = {
    "a table": SMALL | {"seed": 11},
    "letters": SMALL
    | {"dataset": "names", "model": "char_lstm", "optimizer": "adam", "seed": 11},
}
TRAIN = """
import dataclasses, json, sys
from pathlib import Path
from dpsgd_explorer.experiments import parse, start
training = start(parse(json.load(sys.stdin)))
for event in training.events():
    print(json.dumps(dataclasses.asdict(event)))
Path(sys.argv[1]).write_bytes(training.weights_file())
"""
# What a model of the file's weights is measured to be, by what its header says.
MEASURE = """
import json, sys
from safetensors import safe_open
from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.training import inputs, models
from dpsgd_explorer.training.dp_sgd import evaluate, predict
with safe_open(sys.argv[1], "pt") as file:
    config = TrainingConfig.model_validate_json(file.metadata()["config"])
    weights = {name: file.get_tensor(name) for name in file.keys()}
model = models.of_config(config, 0)
model.load_state_dict(weights)
data = inputs.load(config.dataset, config.model, None)
accuracy, loss = evaluate(predict(model, data.test), data.test_targets)
print(json.dumps({"test_accuracy": accuracy, "test_loss": loss}))
"""


def download(client, run_id, extension):
    answer = client.get(f"{RUNS}/{run_id}/export.{extension}")
    assert answer.status_code == 200
    assert answer.headers["Content-Disposition"] == (
        f'attachment; filename="dpsgd-run-{run_id[:8]}.{extension}"'
    )
    return answer.text


def test_json_holds_settings_summary_and_every_event(client, finished):
    whole = json.loads(download(client, finished, "json"))
    assert TrainingConfig.parse(whole["config"]) == TrainingConfig(**SMALL)
    assert whole["privacy"]["epsilon_text"] == "1.00"
    told = [(e["kind"], e["data"]) for e in whole["events"] if e["kind"] != "state"]
    assert told == [(event.kind, event.data) for event in recorded_events()]


def test_csv_has_a_row_for_each_step_and_evaluation(client, finished):
    rows = list(csv.DictReader(io.StringIO(download(client, finished, "csv"))))
    assert [row["kind"] for row in rows] == ["step"] * 2 + ["evaluation"] + [
        "step"
    ] * 2 + ["evaluation"]
    assert [float(row["epsilon"]) for row in rows if row["kind"] == "step"] == [
        0.25,
        0.5,
        0.75,
        1.0,
    ]
    assert rows[2]["test_accuracy"] == "0.84"
    assert rows[0]["not_private_clipped_fraction"] == "0.25"
    assert {row["delta"] for row in rows} == {"1e-05"}
    assert {row["neighboring_relation"] for row in rows} == {"add_or_remove_one"}


@pytest.mark.parametrize("extension", ["csv", "json"])
def test_a_long_log_is_never_in_memory_as_a_whole(client, store, run_id, extension):
    note = "x" * 2000
    claim = store.leases.claim(run_id)
    told = [
        Event("step", {"step": i, "epsilon": 0.1, "seconds": note})
        for i in range(1, 3001)
    ]
    store.leases.append(claim, told)
    del told
    address = f"{RUNS}/{run_id}/export.{extension}"
    tracemalloc.start()
    with client.get(address, buffered=False) as answer:
        length = sum(len(part) for part in answer.response)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert length > 3000 * len(note)
    assert peak < length / 3


def test_a_log_that_grows_is_taken_as_it_was(client, store, run_id):
    claim = store.leases.claim(run_id)
    with client.get(f"{RUNS}/{run_id}/export.json", buffered=False) as answer:
        parts = iter(answer.response)
        text = next(parts).decode()
        store.leases.append(claim, recorded_events())
        text += b"".join(parts).decode()
    assert [event["seq"] for event in json.loads(text)["events"]] == [1, 2]


@pytest.mark.parametrize("plotly", ["", "?plotly=1"])
def test_html_is_one_file_that_needs_nothing_else(client, finished, plotly):
    client.patch(f"{RUNS}/{finished}", json={"name": "<script>alert(1)</script>"})
    text = client.get(f"{RUNS}/{finished}/export.html{plotly}").text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert "<script>alert(1)" not in text
    assert "<strong>ε = 1.00</strong> at δ = 1e-05" in text
    own_part = text.replace(plotly_bundle().read_text(), "")
    assert text.count("Plotly.newPlot(") >= 2 if plotly else "<script" not in text
    assert "src=" not in own_part
    assert "url(" not in own_part
    assert "https://" not in own_part


def test_a_report_is_small_and_draws_the_budget_wall(client, store):
    settings = SMALL | {"steps": 3000, "evaluations": 200}
    run_id = client.post(RUNS, json=settings).json["id"]
    phase, *_, end = recorded_events()
    steps = [
        Event("step", {"step": i, "epsilon": i / 3000, "seconds": 1.0, **STEP})
        for i in range(1, 3001)
    ]
    tests = [
        Event(
            "evaluation",
            {
                "step": 15 * i,
                "epsilon": i / 200,
                "seconds": 1.0,
                "test_accuracy": 0.7 + i / 2000,
                "test_loss": 0.5,
            },
        )
        for i in range(1, 201)
    ]
    ended(store, run_id, [phase, *steps, *tests, end])
    text = download(client, run_id, "html")
    assert len(text.encode()) <= 300_000
    assert "budget ε = 1.00" in text
    assert text.count('<svg class="plot') == 4  # two charts, each wide and narrow
    assert "nan" not in "".join(re.findall(r'd="[^"]*"', text))


def test_a_report_prints_one_unit_and_no_row_that_says_nothing(client, finished):
    text = download(client, finished, "html")
    assert "<code>kind = " not in text
    [row] = re.findall(r'<tr><th scope="row">Model</th>(.*?)</tr>', text)
    words, code = re.findall(r"<td>(.*?)</td>", row)
    assert "logistic" in html.unescape(code)
    assert words == form_fields(TrainingConfig)["model"].in_words("logistic")
    assert words != "logistic"
    assert "test accuracy, %" in text
    assert '<td class="n">84.00 %</td>' in text
    with_plotly = client.get(f"{RUNS}/{finished}/export.html?plotly=1").text
    own_part = with_plotly.replace(plotly_bundle().read_text(), "")
    assert re.search(r'"y":\[[\d.]+,84\.0\]', own_part)


@pytest.mark.parametrize("kind", LAUNCHED)
def test_a_report_of_every_kind_draws_what_there_is(client, kind):
    run_id = client.post(RUNS, json={"kind": kind}).json["id"]
    text = download(client, run_id, "html")
    assert '<svg class="plot' in text
    assert len(text.encode()) <= 300_000


@pytest.mark.parametrize(
    ("events", "end", "says"),
    [
        ([], None, "The run had not ended when"),
        ([], "cancelled", "The run ended before its first step."),
        ([NOT_PRIVATE], "done", "<strong>Not private:</strong> ε = ∞"),
    ],
    ids=["running", "stopped at once", "not private"],
)
def test_a_report_says_what_there_is_to_say(client, store, run_id, events, end, says):
    claim = store.leases.claim(run_id)
    store.leases.append(claim, events)
    if end:
        store.leases.finish(claim, end)
    assert says in download(client, run_id, "html")


@pytest.mark.parametrize("extension", ["xml", "json.gz", "__class__"])
def test_an_unknown_format(client, finished, extension):
    error_of(client.get(f"{RUNS}/{finished}/export.{extension}"), 404)


@pytest.mark.parametrize("extension", ["csv", "html", "ipynb", "json", "py"])
def test_a_run_that_waits_can_be_taken_away_too(client, run_id, extension):
    assert download(client, run_id, extension)


def test_the_script_of_an_unfinished_run_compares_with_nothing(client, run_id):
    text = download(client, run_id, "py")
    assert "Nothing to compare with: the recorded run is queued." in text
    assert "RECORDED = {}\n" in text
    compile(text, "repeat.py", "exec")


# The script as it is, then with a recorded number that is off by very little.
TWICE = """
import runpy, sys
script = runpy.run_path(sys.argv[1])
print(script["main"]())
script["RECORDED"]["test_accuracy"] += 1e-9
print(script["main"]())
"""


@pytest.fixture(scope="module")
def train(tmp_path_factory):
    """Train as a configuration says, once, in a process of its own."""

    @functools.cache
    def train(config):
        weights = tmp_path_factory.mktemp("trained") / "weights"
        lines = run_python(["-c", TRAIN, str(weights)], config).splitlines()
        return [Event(**json.loads(line)) for line in lines], weights.read_bytes()

    return train


@pytest.fixture(params=TRAINED)
def trained(client, store, train, request):
    """A run that the training loop really made."""
    run_id = client.post(RUNS, json=TRAINED[request.param]).json["id"]
    events, weights = train(json.dumps(store.get(run_id).config))
    claim = store.leases.claim(run_id)
    store.leases.save_weights(claim, weights)
    store.leases.append(claim, events)
    store.leases.finish(claim, "done")
    return run_id


@pytest.mark.long("real runs")
def test_the_script_repeats_the_run_and_notices_if_not(client, trained, tmp_path):
    script = tmp_path / "repeat.py"
    script.write_text(download(client, trained, "py"))
    told = run_python(["-c", TWICE, str(script)], "").splitlines()
    summary = client.get(f"{RUNS}/{trained}").json["summary"]
    recorded = {
        name: summary[name]
        for name in ("epsilon", "delta", *KINDS["training"].measured)
    }
    assert told.count(f"repeated {recorded}") == 2
    assert [line for line in told if line in ("0", "1")] == ["0", "1"]


@pytest.mark.long("real runs")
def test_the_notebook_repeats_the_run_too(client, trained):
    code = code_of(download(client, trained, "ipynb"))
    printed = run_python(["-c", code + "\nprint(REPEATED == RECORDED)"], "")
    assert printed.splitlines()[-1] == "True"
    assert code.count('"test_accuracy": ') == 1


@pytest.mark.long("real runs")
def test_the_weights_are_those_that_were_measured(client, trained, tmp_path):
    file = tmp_path / "taken.safetensors"
    answer = client.get(f"{RUNS}/{trained}/weights.safetensors")
    file.write_bytes(answer.data)
    measured = json.loads(run_python(["-c", MEASURE, str(file)], ""))
    summary = client.get(f"{RUNS}/{trained}").json["summary"]
    assert measured == {name: summary[name] for name in measured}


def test_script_and_notebook_say_in_their_first_line_what_to_install(client, finished):
    script = download(client, finished, "py").splitlines()[0]
    notebook = json.loads(download(client, finished, "ipynb"))
    for line in (script, notebook["cells"][0]["source"][0]):
        assert f"DP-SGD Explorer {__version__}" in line
        assert "python -m pip install ." in line


def test_the_notebook_is_one_of_format_4_5(client, finished):
    notebook = json.loads(download(client, finished, "ipynb"))
    assert set(notebook) == {"cells", "metadata", "nbformat", "nbformat_minor"}
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    ids = [cell["id"] for cell in notebook["cells"]]
    assert len(set(ids)) == len(ids)
    of_code = {"execution_count", "outputs"}
    for cell in notebook["cells"]:
        assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", cell["id"])
        more = of_code if cell["cell_type"] == "code" else set()
        assert set(cell) == {"cell_type", "id", "metadata", "source", *more}
        assert all(isinstance(line, str) for line in cell["source"])


def code_of(notebook):
    """Return the code of a notebook's cells."""
    cells = json.loads(notebook)["cells"]
    code = [cell["source"] for cell in cells if cell["cell_type"] == "code"]
    return "\n".join("".join(lines) for lines in code)


def run_python(arguments, stdin):
    done = subprocess.run(
        [sys.executable, *arguments],
        input=stdin,
        text=True,
        capture_output=True,
        check=True,
        cwd=FRONT_DIR,
        env=os.environ | {"PYTHONPATH": str(FRONT_DIR)},
    )
    return done.stdout


@pytest.mark.long("real runs")
def test_in_a_clean_environment_the_exports_give_the_same_digits(
    client, trained, tmp_path, clean_python
):
    script, notebook = (download(client, trained, name) for name in ("py", "ipynb"))
    summary = client.get(f"{RUNS}/{trained}").json["summary"]
    names = ("epsilon", "delta", *KINDS["training"].measured)
    repeated = {name: summary[name] for name in names}
    bare = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    for text, source in (
        (script, script),
        (notebook, code_of(notebook) + "\nprint('repeated', REPEATED)"),
    ):
        assert "python -m pip install ." in text[:600]
        file = tmp_path / "repeat.py"
        file.write_text(source)
        command = [str(clean_python), str(file)]
        told = subprocess.check_output(command, cwd=tmp_path, env=bare, text=True)
        assert f"repeated {repeated}" in told.splitlines()


def test_the_odometer_of_a_run_goes_on_in_the_library(client, store):
    config = TrainingConfig.parse(SMALL | {"steps": 9})
    run_id = client.post(RUNS, json=SMALL | {"steps": 9}).json["id"]
    events = start(config).events()
    stopped = [e for e in events if e.data["step"] <= 4]  # of nine steps
    ended(store, run_id, stopped, "cancelled")
    whole = json.loads(download(client, run_id, "json"))
    odometer = Odometer.from_json(json.dumps(whole["odometer"]))
    spent = odometer.epsilon(config.delta)
    assert spent == pytest.approx(stopped[-1].data["epsilon"], rel=1e-6)
    odometer.add_gaussian(20.0, "a count")
    assert odometer.epsilon(config.delta) > spent


def test_a_run_without_noise_has_no_odometer(client, store):
    run_id = client.post(RUNS, json=SMALL | {"private": False}).json["id"]
    assert json.loads(download(client, run_id, "json"))["odometer"] is None


def test_a_site_with_a_key_signs_its_receipts(make_app):
    key = Ed25519PrivateKey.generate()
    app = make_app(operation=Operation(receipt_key=private_pem(key)))
    client, store = app.test_client(), app.extensions["run_store"]
    receipt = stored_search()[1][-1].data["receipt"]
    run_id = client.post(RUNS, json=SMALL).json["id"]
    *first, end = recorded_events()
    ended(store, run_id, [*first, Event("end", end.data | {"receipt": receipt})])

    keys = client.get("/receipt-keys.pem").text
    signed = client.get(f"{RUNS}/{run_id}/receipt.json").json
    assert check_signature(signed, "--key", keys)["run"] == run_id
    assert {name: signed[name] for name in receipt} == receipt
    assert keys == public_pem(key)
    assert "/receipt-keys.pem" in client.get(f"/runs/{run_id}/").text


def test_a_site_without_a_key_says_so(client, finished):
    error_of(client.get("/receipt-keys.pem"), 404, says="does not sign")
    assert "receipt-keys" not in client.get(f"/runs/{finished}/").text
