"""Commands about a site refuse a folder in which no site was started."""

import pytest

from dpsgd_explorer.cli.main import main


@pytest.mark.parametrize(
    "words",
    [
        ["drain"],
        ["drain", "--resume"],
        ["queue", "status"],
        ["runs", "end", "some"],
        ["prune", "--days", "0"],
        ["database", "current"],
        ["database", "backup", "copy.sqlite3"],
    ],
    ids=" ".join,
)
def test_a_folder_without_a_database_is_refused_and_left_alone(
    words, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    assert main(words) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err == (
        f"{words[0]}: DPSGD_INSTANCE_DIR must be the folder of a site, got "
        f"{tmp_path}/instance: there is no database {tmp_path}/instance/runs.sqlite3. "
        "Run the command in the folder in which the site was started, or set "
        "DPSGD_INSTANCE_DIR.\n"
    )
    assert list(tmp_path.iterdir()) == []


def test_an_address_of_another_file_is_named(tmp_path, monkeypatch, capsys):
    file = tmp_path / "elsewhere.sqlite3"
    monkeypatch.setenv("DPSGD_DATABASE_URL", f"sqlite:///{file}")
    assert main(["drain"]) == 2
    assert f"there is no database {file}. " in capsys.readouterr().err


def test_a_site_that_exists_is_drained(tmp_path, capsys):
    assert main(["database", "upgrade"]) == 0
    assert main(["drain"]) == 0
    assert main(["drain", "--resume"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "runs start again"


@pytest.mark.parametrize("number", ["-1", "nan", "inf", "soon"])
def test_a_wait_is_a_number_of_seconds(number, capsys):
    with pytest.raises(SystemExit) as left:
        main(["drain", f"--seconds={number}"])
    assert left.value.code == 2
    assert "must be a number of seconds, 0 or more" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words", [["serve"], ["worker"], ["doctor"], ["database", "upgrade"]]
)
def test_a_folder_that_cannot_be_created_is_named(words, tmp_path, monkeypatch, capsys):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("DPSGD_INSTANCE_DIR", str(tmp_path / "file" / "instance"))
    code = main(words)
    told = "".join(capsys.readouterr())
    assert code == (1 if words == ["doctor"] else 2)
    assert "DPSGD_INSTANCE_DIR must be a folder that exists or can be created" in told
