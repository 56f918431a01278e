"""Wrong options, values, files and streams: one line, nothing is lost."""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from dpsgd_explorer.cli import main as cli
from dpsgd_explorer.experiments.data_files import fetched, sets

SMALL = {
    "dataset": "adult",
    "model": "logistic",
    "expected_batch_size": 256,
    "noise_multiplier": 1.0,
    "steps": 2,
    "evaluations": 1,
}
#: The smallest valid arguments of each command.
VALID = {
    "data fetch": ["mnist"],
    "database": ["current"],
    "doctor": [],
    "drain": [],
    "epsilon": [
        *("--sample-rate", "0.01", "--noise-multiplier", "1"),
        *("--steps", "5", "--delta", "1e-5"),
    ],
    "prune": [],
    "queue": ["status"],
    "regression": [
        *("--csv", "table.csv", "--target", "y", "--bounds", "a=9,b=9"),
        *("--y-bound", "1", "--epsilon", "1", "--delta", "1e-5"),
    ],
    "runs": ["end", "0" * 32],
    "serve": [],
    "train": ["--config", "config.json"],
    "verify": ["config.json"],
    "worker": [],
}
#: Options that exclude a valid one.
EXCLUDED = {"--target-epsilon": "--noise-multiplier"}
VALUES = [
    *("", "-1", "0", "-0.0", "nan", "inf", "-inf", "1e999", "1" + 400 * "0", "1e308"),
    *("text", "☃", "a" * 5000),
    *("missing", "nowhere/file", "folder", "binary", "empty", "notes.txt", "/proc/x"),
]
EPSILON = ["epsilon", *VALID["epsilon"]]
COMMAND = [sys.executable, "-m", "dpsgd_explorer"]


def commands(parser, name=""):
    """Yield the parser of each command that has no commands of its own."""
    groups = [
        action
        for action in parser._actions
        if isinstance(action, argparse._SubParsersAction)
    ]
    for group in groups:
        for word, command in group.choices.items():
            yield from commands(command, f"{name} {word}".strip())
    if not groups:
        yield name, parser


COMMANDS = dict(commands(cli.parser()))
ARGUMENTS = [
    (name, action)
    for name, parser in COMMANDS.items()
    for action in parser._actions
    if action.nargs != 0
]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with files of each kind; the commands run in it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(SMALL))
    rows = [f"{i % 3},{i % 5},{i % 2}" for i in range(50)]
    (tmp_path / "table.csv").write_text("\n".join(["a,b,y", *rows]))
    (tmp_path / "folder").mkdir()
    (tmp_path / "instance").mkdir()
    (tmp_path / "binary").write_bytes(bytes(range(256)))
    (tmp_path / "empty").touch()
    (tmp_path / "notes.txt").write_text("notes of a year\n")
    return tmp_path


def content(folder):
    return {
        path: path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
    }


def outcome(arguments, capsys):
    try:
        code = cli.main(arguments)
    except SystemExit as left:
        code = left.code
    told = capsys.readouterr()
    return code, told.out, told.err


def refused(arguments, capsys, folder, code=2):
    """Return the one line of a command that changes nothing."""
    before = content(folder)
    ended, out, err = outcome(arguments, capsys)
    assert (ended, out, err.count("\n")) == (code, "", 1), err
    assert content(folder) == before
    return err


def test_every_command_has_valid_arguments_here():
    assert VALID.keys() == COMMANDS.keys()


@pytest.mark.parametrize("name", COMMANDS)
def test_an_unknown_option_is_named(name, folder, capsys):
    err = refused([*name.split(), *VALID[name], "--nonsense"], capsys, folder)
    assert "No option or argument is named --nonsense. See dpsgd " in err


@pytest.mark.parametrize("name", [name for name in COMMANDS if VALID[name]])
def test_a_missing_argument_is_named(name, folder, capsys):
    err = refused(name.split(), capsys, folder)
    assert "must be given. See dpsgd " + name in err


@pytest.mark.parametrize(
    ("name", "action"),
    [
        pytest.param(name, action, id=f"{name} {action.dest}")
        for name, action in ARGUMENTS
    ],
)
def test_nonsense_ends_in_one_line(name, action, folder, monkeypatch, capsys):
    if name in {"serve", "worker", "train", "doctor"}:
        # What passes the checks of options stops at the settings.
        monkeypatch.setenv("DPSGD_THREADS", "none")
    monkeypatch.setenv("DPSGD_OFFLINE", "1")
    monkeypatch.setenv("DPSGD_DATA_DIR", "")  # which main sets
    for value in VALUES:
        arguments = [*name.split(), *_with(VALID[name], action, value)]
        before = content(folder)
        code, out, err = outcome(arguments, capsys)
        assert code in {0, 1, 2}, arguments
        if code:
            assert (out, err.count("\n")) == ("", 1), (arguments, err)
        assert content(folder) == before, arguments


def _with(arguments, action, value):
    """Return the arguments with another value of one."""
    if not action.option_strings:
        return [*arguments[:-1], f"./{value}" if value.startswith("-") else value]
    option = action.option_strings[0]
    rest = [*arguments]
    replaced = EXCLUDED.get(option, option)
    if replaced in rest:
        at = rest.index(replaced)
        del rest[at : at + 2]
    return [*rest, f"{option}={value}"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "dpsgd: COMMAND must be given. See dpsgd --help."),
        (["data"], "data: ACTION must be given. See dpsgd data --help."),
        (["epsilon", "--steps", "x"], "epsilon: --steps must be a whole number, got "),
        (["epsilon", "--delta", ""], "epsilon: --delta must be a number, got ''. See"),
        (["train", "--config"], "train: --config must be followed by a value. See "),
        (["epsilon", "--sample", "3"], "epsilon: --sample is short for each of --sam"),
        (["serve", "--only", "x"], "serve: --only must be one of "),
        (["drain", "--seconds", "-1"], "drain: --seconds must be a number of seconds"),
        (["prune", "now"], "prune: No option or argument is named now. See dpsgd pru"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_wrong_usage_is_told_in_our_form(arguments, message, folder, capsys):
    assert refused(arguments, capsys, folder).startswith(message)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--ridge", "1"], "--ridge must be left out with --method adassp: it is for "),
        (["--steps", "9"], "--steps must be left out with --method adassp"),
        (["--noise-multiplier", "9"], "--noise-multiplier must be left out with "),
        (["--method", "noisy_gd", "--variant", "tight"], "--variant must be left out"),
        (["--seed", "-1"], "--seed must be a whole number, 0 or more, got '-1'"),
        (["--x-bound", "1e308"], "--x-bound must be at most 1e+50, got 1e+308. "),
        (["--y-bound", "1e308"], "--y-bound must be at most 1e+50, got 1e+308. "),
        (["--ridge-factor", "1e308"], "--ridge-factor must be at most 1e+50"),
    ],
    ids=" ".join,
)
def test_an_option_that_a_release_cannot_use_is_refused(
    options, message, folder, capsys
):
    err = refused(["regression", *VALID["regression"], *options], capsys, folder)
    assert err.startswith(f"regression: {message}")


@pytest.mark.parametrize(
    "options", [["--csv", "table.csv"], ["--target", "y"]], ids=" ".join
)
def test_a_table_and_its_target_belong_together(options, folder, capsys):
    arguments = ["regression", "--epsilon", "1", "--delta", "1e-5", *options]
    err = refused(arguments, capsys, folder)
    assert err.startswith("regression: --target NAME must be given with --csv FILE")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--events", "config.json"], "--events must be another file than --config"),
        (["--events", "x", "--checkpoint", "x"], "--checkpoint must be another file"),
        (["--events", "notes.txt"], "--events must be a new file, or events that "),
        (["--events", "binary"], "--events must be a new file, or events that train"),
        (["--checkpoint", "folder"], "--checkpoint must be a file that can be written"),
        (["--checkpoint", ""], "--checkpoint must be a file that can be written"),
        (["--checkpoint", "/dev/null"], "--checkpoint must be a file that can be wri"),
        (["--checkpoint", "/proc/x"], "--checkpoint must be a file that can be writ"),
        (["--checkpoint", "a" * 300], "--checkpoint must be a file that can be writ"),
        (["--events", "new", "--checkpoint", "binary"], "--checkpoint must be a file "),
        (["--weights", "folder.safetensors"], "--weights must be a file that can be "),
    ],
)
def test_no_run_starts_that_could_not_write_its_files(options, message, folder, capsys):
    (folder / "folder.safetensors").mkdir()
    arguments = ["train", "--config", "config.json", *options]
    assert refused(arguments, capsys, folder).startswith(f"train: {message}")


@pytest.mark.parametrize(
    "text", ["[" * 200_000, '{"steps": ' + "9" * 6000 + "}"], ids=["deep", "long"]
)
def test_json_beyond_the_reader_is_refused(text, folder, capsys):
    (folder / "config.json").write_text(text)
    err = refused(["train", "--config", "config.json"], capsys, folder)
    assert err.startswith("train: --config must hold JSON without numbers of thous")


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("PORT", "65536", "PORT must be a whole number, at least 1 and at most 65535"),
        ("DPSGD_DATA_DIR", "binary", "DPSGD_DATA_DIR, or --data, must be a folder"),
        ("DPSGD_DATABASE_URL", "sqlite:///binary", "DPSGD_DATABASE_URL must be a SQLi"),
        ("DPSGD_DATABASE_URL", "sqlite:///folder", "DPSGD_DATABASE_URL must be a file"),
        ("DPSGD_DATABASE_URL", "sqlite:////proc/x/y", "DPSGD_DATABASE_URL must be a "),
    ],
)
@pytest.mark.parametrize("words", [["worker"], ["database", "upgrade"]])
def test_a_wrong_variable_is_named(
    words, variable, value, message, folder, monkeypatch, capsys
):
    monkeypatch.setenv(variable, value)
    code, out, err = outcome(words, capsys)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(f"{words[0]}: {message}")


def test_the_version_of_a_database_is_read_without_creating_tables(
    folder, monkeypatch, capsys
):
    monkeypatch.setenv("DPSGD_DATABASE_URL", f"sqlite:///{folder / 'empty'}")
    code, out, _ = outcome(["database", "current"], capsys)
    assert code == 1
    assert out.startswith("no tables, this program needs schema ")
    assert outcome(["database", "upgrade"], capsys)[0] == 0
    assert outcome(["database", "current"], capsys)[0] == 0


@pytest.mark.parametrize("offline", ["0", "1"])
def test_a_download_that_fails_names_what_to_do(offline, folder, monkeypatch, capsys):
    monkeypatch.setattr(fetched, "FOLDER", folder / "package")
    monkeypatch.setattr(fetched, "user_cache", lambda: folder / "cache")
    monkeypatch.setenv("DPSGD_OFFLINE", offline)
    monkeypatch.setenv("DPSGD_DATA_DIR", "")
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    code, out, err = outcome(["data", "fetch", "mnist"], capsys)
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert err.startswith("data: MNIST digits needs the data file train-images-idx3-u")
    how = "without DPSGD_OFFLINE" if offline == "1" else "when online"
    assert f"Run `dpsgd data fetch mnist` {how}, or put the file into " in err
    assert sets.MNIST.files[0].sha256 in err
    assert not list(folder.rglob("*.gz"))


def shell(line, folder):
    command = " ".join([*COMMAND, *EPSILON])
    return subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command} {line}"],
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(Path(cli.__file__).parents[2])},
    )


def test_a_full_disk_and_closed_streams_are_no_crash(folder):
    full = shell(">/dev/full", folder)
    assert (full.returncode, full.stderr) == (1, "epsilon: No space left on device.\n")
    closed = shell(">&- 2>&- <&-", folder)
    assert (closed.returncode, closed.stderr) == (0, "")
    read = shell("| head -1", folder)
    assert read.returncode in {0, 141}
    assert read.stdout.startswith("σ = 1.0, 5 steps: ε = ")
    assert read.stderr == ""


def test_a_configuration_from_a_closed_stream_is_refused(folder):
    line = " ".join([*COMMAND, "train", "--config", "-", "<&-"])
    env = {**os.environ, "PYTHONPATH": str(Path(cli.__file__).parents[2])}
    done = subprocess.run(
        ["bash", "-c", line], capture_output=True, text=True, cwd=folder, env=env
    )
    assert done.returncode == 2
    assert done.stderr.startswith("train: --config must hold JSON, line 1 does not")
    assert done.stderr.count("\n") == 1
