"""verify reads receipts of the library and of runs, without torch, and names faults."""

import json
import subprocess
import sys

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dpsgd_explorer.accounting import round_up
from dpsgd_explorer.cli.main import main
from dpsgd_explorer.experiments import kinds
from dpsgd_explorer.signatures import SigningKeys
from dpsgd_explorer.training.artifacts import save_weights
from tests.keys import private_pem, public_pem
from tests.stored_runs import stored_search

ADULT = {
    "dataset": "adult",
    "model": "logistic",
    "expected_batch_size": 24,
    "noise_multiplier": 1.0,
    "steps": 6,
    "evaluations": 1,
}
RUNS = {
    "training": (ADULT, []),
    "changed within a budget": (
        ADULT | {"filter_epsilon": 40.0},
        [
            (2, {"noise_multiplier": 0.9, "max_grad_norm": 0.2}),
            (4, {"expected_batch_size": 48}),
        ],
    ),
    "bound chosen": (ADULT, [(2, {"max_grad_norm": 0.2})]),
    "gone on": (ADULT | {"filter_epsilon": 40.0}, [(6, {"further_steps": 2})]),
}


def ended(name):
    if name == "search":
        return None, stored_search()[1][-1].data["receipt"]
    settings, changes = RUNS[name]
    run = kinds.start(kinds.parse(settings), changes=changes)
    return run, list(run.events())[-1].data["receipt"]


@pytest.fixture
def verify(tmp_path, capsys):
    """Write a receipt, check it; return exit code, standard output and error."""

    def check(receipt, *options):
        path = tmp_path / "receipt.json"
        path.write_text(receipt if isinstance(receipt, str) else json.dumps(receipt))
        code = main(["verify", str(path), *options])
        told = capsys.readouterr()
        return code, told.out, told.err

    return check


LONG = pytest.mark.long("real runs")


@pytest.mark.parametrize(
    "name",
    ["training", "search", *(pytest.param(x, marks=LONG) for x in list(RUNS)[1:])],
)
def test_the_receipt_of_a_run_fits(name, verify):
    _, receipt = ended(name)
    code, table, errors = verify(receipt)
    assert (code, errors) == (0, "")
    assert "NO" not in {line.split()[-1] for line in table.splitlines() if line}
    assert "arithmetic, not honesty" in table
    inside = receipt["trial"] if name == "search" else receipt
    if name == "training":
        epsilon = round_up(receipt["epsilon"], 4)
        stated = f"Stated: ε = {epsilon} at δ = {receipt['told']['delta']:g}."
        assert stated in table.splitlines()
    inside["done"][0]["noise_draws"] -= 1
    code, table, errors = verify(receipt)
    assert code == 1
    assert "figures that do not fit: done[0].noise_draws" in errors


@LONG
@pytest.mark.parametrize(
    ("name", "change", "figure"),
    [
        ("search", lambda r: r["selection"].update(epsilon=0.1), "selection.epsilon"),
        ("search", lambda r: r["selection"].update(trainings=1), "selection.trainings"),
        ("search", lambda r: r["selection"].update(law="none"), "selection.law"),
        (
            "changed within a budget",
            lambda r: r["before"][0]["done"][0].update(steps=1),
            "before[0].told.steps",
        ),
        (
            "changed within a budget",
            lambda r: r["earlier"][0].update(noise_multiplier=2.0),
            "earlier",
        ),
        (
            "changed within a budget",
            lambda r: r["filter"].update(epsilon=1.0),
            "filter.order",
        ),
    ],
)
def test_an_edited_figure_of_a_run_is_named(name, change, figure, verify):
    _, receipt = ended(name)
    change(receipt)
    code, _, errors = verify(receipt)
    assert code == 1
    assert figure in errors


@LONG
def test_a_run_beyond_its_budget_does_not_fit(verify):
    _, receipt = ended("changed within a budget")
    for part in (receipt["told"], *receipt["done"]):
        part["noise_multiplier"] = 0.02
    code, _, errors = verify(receipt)
    assert code == 1
    assert "all steps are within the budget" in errors


def test_a_signature_is_checked_against_the_keys_of_a_site(tmp_path, verify):
    key, file = Ed25519PrivateKey.generate(), tmp_path / "keys.pem"
    file.write_text(public_pem(key))
    keys = SigningKeys.from_pem("KEY", private_pem(key))
    _, receipt = ended("search")
    signed = keys.sign(receipt, "a" * 32)

    code, table, _ = verify(signed, "--key", str(file))
    assert code == 0
    assert f"Signed with the key {signed['signature']['key']} for run aaaa" in table
    code, answer, _ = verify(signed, "--key", str(file), "--json")
    assert json.loads(answer)["signature"]["is_checked"] is True

    code, table, _ = verify(signed)
    assert code == 0
    assert "not checked. Pass the site" in table
    code, table, _ = verify(receipt)
    assert code == 0
    assert "key" not in table

    code, table, errors = verify(receipt, "--key", str(file))
    assert (code, table) == (1, "")
    assert "signature: is missing" in errors
    signed["trial"]["epsilon"] = 0.5
    code, table, errors = verify(signed, "--key", str(file))
    assert (code, table) == (1, "")
    assert "changed after it was signed" in errors
    for path in (tmp_path, tmp_path / "receipt.json"):  # a folder; no key
        assert verify(signed, "--key", str(path))[0] == 2


def test_weights_and_answers_as_json(tmp_path, capsys):
    run, receipt = ended("training")
    path = save_weights(tmp_path / "w.safetensors", run.weights(), receipt, {})
    for each in (path, tmp_path / "w.safetensors"):
        assert main(["verify", str(each), "--json"]) == 0
        answer = json.loads(capsys.readouterr().out)
        assert answer["fits"] is True
        assert "told.steps" in {figure["path"] for figure in answer["figures"]}
        assert set(answer["not_checked"]) >= {"seed", "loss"}
        assert answer["limits"]


@pytest.mark.parametrize(
    ("text", "words"),
    [("", "is empty"), ('{"told": 1', "cut short"), ("{}", "version")],
)
def test_what_is_no_receipt_ends_with_1(text, words, verify):
    code, table, errors = verify(text)
    assert (code, table) == (1, "")
    assert "receipt.json is not a valid receipt" in errors
    assert "weights that dpsgd train wrote (.safetensors)" in errors
    assert words in errors


def test_a_file_that_is_not_there_is_named(capsys, tmp_path):
    assert main(["verify", str(tmp_path / "none.json")]) == 2
    assert "none.json: No such file" in capsys.readouterr().err


def test_a_check_loads_no_torch(tmp_path):
    path = tmp_path / "receipt.json"
    path.write_text(json.dumps(ended("training")[1]))
    code = (
        "import sys; from dpsgd_explorer.cli.main import main; "
        f"assert main(['verify', {str(path)!r}]) == 0; "
        "assert 'torch' not in sys.modules and 'pydantic' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
