"""The commands as a person or a script calls them."""

import io
import json
import math
import re
import subprocess
import sys

import pytest

from dpsgd_explorer import __version__, accounting
from dpsgd_explorer.cli.main import main
from dpsgd_explorer.experiments.accountant_words import LABELS
from dpsgd_explorer.experiments.events import Event
from dpsgd_explorer.experiments.kinds import LAUNCHED
from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.training.dp_sgd import train
from tests.tiny_runs import EACH_KIND, TINY

SMALL = {
    "dataset": "adult",
    "model": "logistic",
    "expected_batch_size": 256,
    "noise_multiplier": 1.0,
    "steps": 12,
    "evaluations": 3,
}
RUN = {"sample_rate": 0.01, "steps": 1000, "delta": 1e-5}
RUN_OPTIONS = ["--sample-rate", "0.01", "--steps", "1000", "--delta", "1e-5"]


@pytest.fixture
def config_file(tmp_path):
    file = tmp_path / "config.json"
    file.write_text(json.dumps(SMALL))
    return str(file)


def said(capsys, *arguments):
    """Return standard output of a command that succeeds."""
    assert main([*arguments]) == 0
    return capsys.readouterr().out


def timeless(lines):
    return [Event(**json.loads(line)).timeless() for line in lines]


@pytest.fixture(scope="module")
def expected():
    events = train(TrainingConfig.parse(SMALL))
    return [(event.kind, event.timeless()) for event in events]


@pytest.mark.parametrize(
    "command",
    ["serve", "worker", "train", "prune", "epsilon", "regression", "verify"],
)
def test_every_command_explains_itself(command, capsys):
    with pytest.raises(SystemExit) as left:
        main([command, "--help"])
    assert left.value.code == 0
    told = capsys.readouterr().out
    assert told.startswith(f"usage: dpsgd {command}")


def test_the_version_is_printed():
    command = [sys.executable, "-m", "dpsgd_explorer", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == f"dpsgd {__version__}\n"


@pytest.mark.parametrize("package", ["flask", "gunicorn"])
@pytest.mark.parametrize("command", ["serve", "doctor"])
def test_a_command_of_the_site_names_a_package_that_is_missing(command, package):
    code = (
        f"import sys; sys.modules[{package!r}] = None\n"
        "from dpsgd_explorer.cli.main import main\n"
        f"sys.exit(main([{command!r}]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr == (
        f"{command}: this command needs a package that is not installed: {package}. "
        "Run: pip install 'dpsgd-explorer[site]'\n"
    )


def test_without_a_command_the_commands_are_named(capsys):
    with pytest.raises(SystemExit) as left:
        main([])
    assert left.value.code == 2
    assert "COMMAND" in capsys.readouterr().err


@pytest.mark.parametrize(
    "statement",
    [
        "from dpsgd_explorer.cli.main import main; "
        "main(['epsilon', '--noise-multiplier', '1', '--sample-rate', '0.01', "
        "'--steps', '9', '--delta', '1e-5'])",
        "import dpsgd_explorer.runs.worker.consumer",
        "import dpsgd_explorer.server.supervisor",
        "import dpsgd_explorer.server.gunicorn",
    ],
    ids=["epsilon", "worker", "serve", "webserver"],
)
def test_only_training_loads_torch(statement):
    check = "import sys; assert not {'torch', 'flask'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", f"{statement}; {check}"], check=True)


def test_epsilon_is_rounded_up_and_comes_with_its_terms(capsys):
    told = said(capsys, "epsilon", "--noise-multiplier", "1.1", *RUN_OPTIONS)
    epsilon = accounting.epsilon(noise_multiplier=1.1, **RUN)
    assert f"ε = {accounting.round_up(epsilon, 4)}\n" in told
    shown = float(re.search(r"ε = (\S+)", told).group(1))
    assert epsilon <= shown < epsilon + 1e-4
    for term in ("δ = 1e-05", "one record", "Poisson", "rate 0.01", "Exact"):
        assert term in told


def test_the_classic_run_spends_what_is_known(capsys):
    run = ["--steps", "14062", "--delta", "1e-5", "--noise-multiplier", "1.1"]
    assert "ε = 2.3816\n" in said(capsys, "epsilon", "--sample-rate", "256/60000", *run)


def test_the_noise_told_for_a_target_reaches_it(capsys):
    told = said(capsys, "epsilon", "--target-epsilon", "1.5", *RUN_OPTIONS)
    sigma = float(re.search(r"σ = ([\d.]+)", told).group(1))
    exact = accounting.noise_multiplier(target_epsilon=1.5, **RUN)
    assert exact <= sigma <= exact + 1e-4
    assert accounting.epsilon(noise_multiplier=sigma, **RUN) <= 1.5


def test_an_answer_that_fell_back_is_called_a_bound(capsys):
    run = ["--steps", "3", "--delta", "1e-5", "--noise-multiplier", "0.05"]
    assert "Exact: bound" in said(capsys, "epsilon", "--sample-rate", "1e-5", *run)


def test_an_answer_as_json_carries_its_sides_and_its_terms(capsys):
    options = ["--noise-multiplier", "1.1", *RUN_OPTIONS, "--json"]
    answer = json.loads(said(capsys, "epsilon", *options))
    assert answer["lower"] <= answer["upper"] == answer["value"]
    terms = {
        "accountant": "exact",
        "status": "exact",
        "neighboring_relation": "add_or_remove_one",
        "sampling": "poisson",
    }
    assert answer.items() >= (terms | RUN | {"noise_multiplier": 1.1}).items()


def test_all_accountants_answer_with_their_status(capsys):
    options = ["--noise-multiplier", "1.1", *RUN_OPTIONS, "--accountant", "all"]
    _, *lines = said(capsys, "epsilon", *options).splitlines()
    assert len(lines) == len(accounting.ACCOUNTANTS)
    for line, label in zip(lines, LABELS.values(), strict=True):
        assert label in line
    assert any("zCDP: does not apply; accountant 'zcdp'" in line for line in lines)
    answers = json.loads(said(capsys, "epsilon", *options, "--json"))
    assert [one["accountant"] for one in answers] == list(accounting.ACCOUNTANTS)
    statuses = {"exact", "bound", "approximation", "does not apply"}
    assert {one["status"] for one in answers} == statuses


def test_the_noise_of_all_accountants_is_the_exact_ones(capsys):
    options = ["--target-epsilon", "1", *RUN_OPTIONS, "--json", "--accountant"]
    every = json.loads(said(capsys, "epsilon", *options, "all"))
    exact = json.loads(said(capsys, "epsilon", *options, "exact"))
    assert {one["noise_multiplier"] for one in every} == {exact["noise_multiplier"]}
    assert every[0]["value"] == exact["value"] <= 1


def test_batches_of_fixed_size_have_their_own_bound(capsys):
    options = ["--noise-multiplier", "2", *RUN_OPTIONS, "--sampling", "fixed_size"]
    replaced = ["--relation", "replace_one", "--accountant", "exact"]
    told = said(capsys, "epsilon", *options, *replaced)
    epsilon = accounting.fixed_size_epsilon(
        sample_rate=0.01, noise_multiplier=2.0, steps=1000, delta=1e-5
    )
    assert f"ε = {accounting.round_up(epsilon, 4)}\n" in told
    assert "replacing one record, batches of fixed size" in told


def test_several_records_of_a_person_cost_more(capsys):
    options = ["--noise-multiplier", "1.1", *RUN_OPTIONS, "--records-per-person", "5"]
    told = said(capsys, "epsilon", *options)
    spent = accounting.group_epsilon(noise_multiplier=1.1, **RUN, records=5)
    shown = accounting.round_up(spent, 4)
    assert f"ε = {shown} for 5 records of one person\n" in told
    answer = json.loads(said(capsys, "epsilon", *options, "--json"))
    assert (answer["value"], answer["records_per_person"]) == (spent, 5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--noise-multiplier", "-1"], "--noise-multiplier must be"),
        (["--noise-multiplier", "1", "--relation", "x"], "--relation must"),
        (["--noise-multiplier", "1", "--sampling", "x"], "--sampling must be one of"),
        (
            ["--noise-multiplier", "1", "--sampling", "shuffled"],
            "--sampling must draw each batch independently",
        ),
        (
            ["--target-epsilon", "1", "--sampling", "full_batch"],
            "--sampling must be",
        ),
        (["--target-epsilon", "0"], "--target-epsilon must be greater than 0"),
        (
            ["--target-epsilon", "1", "--records-per-person", "2"],
            "--records-per-person must be 1 for a target, got 2",
        ),
        (
            ["--noise-multiplier", "1", "--records-per-person", "0"],
            "--records-per-person must be",
        ),
        (
            ["--noise-multiplier=1", "--records-per-person=2", "--accountant=rdp"],
            "--accountant must be 'exact'",
        ),
        (
            ["--noise-multiplier", "1", "--accountant", "x"],
            "--accountant must be one",
        ),
    ],
)
def test_a_question_without_an_answer_is_refused(options, message, capsys):
    assert main(["epsilon", *options, *RUN_OPTIONS]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith(f"epsilon: {message}")
    assert told.err.count("\n") == 1


def test_train_tells_its_progress_and_writes_its_events(
    config_file, tmp_path, capsys, expected
):
    events = tmp_path / "events.jsonl"
    told = said(capsys, "train", "--config", config_file, "--events", str(events))
    assert timeless(events.read_text().splitlines()) == [each for _, each in expected]
    *lines, last, terms = told.splitlines()
    evaluated = [data for kind, (_, data) in expected if kind == "evaluation"]
    assert len(lines) == len(evaluated)
    for line, data in zip(lines, evaluated, strict=True):
        assert line.startswith(f"step {data['step']:>5} of 12 ")
        assert f"ε {accounting.round_up(data['epsilon']):>6} " in line
        assert f"accuracy {data['test_accuracy']:.2%}" in line
    assert last.endswith("finished")
    assert "δ = 1e-05" in terms


def test_train_reads_and_writes_pipes(monkeypatch, capsys, expected):
    monkeypatch.setattr(sys, "stdin", io.StringIO(json.dumps(SMALL)))
    assert main(["train", "--config", "-", "--json"]) == 0
    told = capsys.readouterr()
    assert timeless(told.out.splitlines()) == [each for _, each in expected]
    assert "accuracy" in told.err


@pytest.mark.parametrize("kind", EACH_KIND)
def test_train_tells_the_end_of_every_kind_of_run(kind, monkeypatch, capsys):
    settings, reached, terms, _ = TINY[kind]
    config = json.dumps(settings | {"kind": kind})
    monkeypatch.setattr(sys, "stdin", io.StringIO(config))
    *_, last, told = said(capsys, "train", "--config", "-").splitlines()
    assert f"   {reached}" in last
    assert last.endswith("finished")
    assert told.startswith(terms)


@pytest.mark.long("real runs")
def test_a_comparison_of_engines_tells_each_ratio(tmp_path, capsys):
    config = tmp_path / "engines.json"
    tiny = {"kind": "engines", "model": "lstm", "width": 4, "batch_size": 2}
    config.write_text(json.dumps(tiny | {"sequence_length": 2}))
    lines = said(capsys, "train", "--config", str(config)).splitlines()
    assert "ordinary 1.00 of an ordinary step" in lines[0]
    assert any("vmap refused" in line for line in lines)
    assert "gradients" in lines[-2]
    assert "apart" in lines[-2]
    assert lines[-1] == "made-up data, nothing is spent"


def test_a_run_without_noise_is_called_not_private(tmp_path, capsys):
    file = tmp_path / "config.json"
    file.write_text(json.dumps(SMALL | {"noise_multiplier": 0.0, "steps": 2}))
    told = said(capsys, "train", "--config", str(file))
    assert f"ε {accounting.round_up(math.inf):>6} " in told
    assert told.endswith("not private\n")


@pytest.mark.parametrize(
    ("rate", "terms"),
    [("public", "full batches, rate 1; one Gaussian: exact"), ("notebook", "private")],
)
def test_train_carries_out_a_regression(tmp_path, capsys, rate, terms):
    file = tmp_path / "config.json"
    descent = {"noise_multiplier": 50.0, "steps": 9, "evaluations": 2}
    settings = {"kind": "regression", "learning_rate": rate, **descent}
    file.write_text(json.dumps(settings))
    *lines, told = said(capsys, "train", "--config", str(file)).splitlines()
    assert all("median MSE" in line for line in lines)
    assert told.endswith(terms)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"steps": 1,}', "--config must hold JSON, line 1 does not"),
        ('{"stepz": 1}', "unknown setting 'stepz'"),
        ("[]", "the body must be an object of settings"),
        ('{"kind": "x"}', f"kind must be one of {', '.join(LAUNCHED)}, got 'x'"),
        (
            '{"kind": "search"}',
            f"kind must be one of {', '.join(LAUNCHED)}, got 'search'",
        ),
    ],
    ids=["broken", "unknown", "no object", "kind", "retired"],
)
def test_a_bad_configuration_is_refused(tmp_path, capsys, text, message):
    file = tmp_path / "config.json"
    file.write_text(text)
    assert main(["train", "--config", str(file)]) == 2
    assert capsys.readouterr().err.startswith(f"train: {message}")


def test_files_that_cannot_be_used_are_named(tmp_path, capsys, config_file):
    missing = str(tmp_path / "nowhere" / "file")
    assert main(["train", "--config", missing]) == 2
    assert f"{missing}: No such file" in capsys.readouterr().err
    assert main(["train", "--config", config_file, "--events", missing]) == 2
    assert "--events must be in an existing folder" in capsys.readouterr().err


@pytest.mark.parametrize("rate", ["256/0", "x", "1/2/3", "1e999"])
def test_a_sample_rate_that_is_no_number_is_refused_in_a_sentence(rate, capsys):
    rest = ["--steps", "5", "--delta", "1e-5", "--noise-multiplier", "1"]
    with pytest.raises(SystemExit) as caught:
        main(["epsilon", "--sample-rate", rate, *rest])
    assert caught.value.code == 2
    assert "--sample-rate" in capsys.readouterr().err


@pytest.mark.parametrize(
    "more",
    [
        ["--sample-size", "1000"],
        ["--max-batch-size", "30"],
        ["--sampling", "truncated_poisson", "--sample-size", "1000"],
        ["--sampling", "truncated_poisson", "--max-batch-size", "30"],
    ],
)
def test_sizes_belong_to_batches_that_are_cut(more, capsys):
    rest = ["--steps", "5", "--delta", "1e-5", "--noise-multiplier", "1"]
    assert main(["epsilon", "--sample-rate", "0.01", *rest, *more]) == 2
    told = capsys.readouterr().err
    assert "--sample-size" in told or "--max-batch-size" in told
    assert "got None" in told or "left out" in told


def test_random_allocation_is_answered_and_calibrated(capsys):
    rest = ["--sample-rate", "1/12", "--steps", "12", "--delta", "1e-5"]
    rest += ["--sampling", "random_allocation"]
    assert main(["epsilon", *rest, "--target-epsilon", "1"]) == 0
    noise = capsys.readouterr().out.split()[2].removesuffix(",")
    assert main(["epsilon", *rest, "--noise-multiplier", noise, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert 0.999 < answer["value"] <= 1
    assert (answer["sampling"], answer["status"]) == ("random_allocation", "exact")


def test_a_reader_that_has_enough_ends_the_command_quietly():
    """As ``python -m dpsgd_explorer epsilon … | head -0`` does."""
    command = [sys.executable, "-m", "dpsgd_explorer", "epsilon", *RUN_OPTIONS]
    told = subprocess.Popen(
        [*command, "--noise-multiplier", "1"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    told.stdout.close()
    assert told.wait() == 141
    assert told.stderr.read() == ""
    told.stderr.close()
