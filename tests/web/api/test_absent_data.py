"""A data set that the site's machine does not have: what to do, and when runs fail."""

import re
from dataclasses import replace
from html import unescape

import pytest

from dpsgd_explorer.experiments.data_files import sets
from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.settings import DataSources
from tests.web.reading import page_data

NAME = "fashion_mnist"
RUN = {"dataset": NAME, "model": "logistic", "steps": 5, "expected_batch_size": 64}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The folder for data files of a machine that has none."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    files = [replace(f, system_folder=tmp_path) for f in sets.FASHION_MNIST.files]
    absent = replace(sets.FASHION_MNIST, files=tuple(files))
    monkeypatch.setitem(sets.FETCHED, NAME, absent)
    return tmp_path / "data"


@pytest.fixture
def without_mnist(tmp_path, monkeypatch):
    """A machine without MNIST, as an installed package leaves it."""
    elsewhere = replace(sets.MNIST.files[0], path="elsewhere/images.gz")
    absent = replace(sets.MNIST, files=(elsewhere, *sets.MNIST.files[1:]))
    monkeypatch.setitem(sets.FETCHED, "mnist", absent)


@pytest.fixture(params=[False, True], ids=["may fetch", "offline"])
def site(request, folder, make_app):
    """A site, and whether it is offline."""
    sources = DataSources(data_dir=folder, is_offline=request.param)
    return make_app(data=sources).test_client(), request.param


def shown(client):
    """Return the label of the data set, and its note without and with script."""
    page = client.get("/train/", query_string=RUN).text
    label = re.search(rf'<option value="{NAME}"[^>]*>(.*?)</option>', page)[1]
    note = page_data(page)["catalogue"]["data_sets"][NAME]["note"]
    assert note in unescape(page)
    return unescape(label), note


def test_the_list_has_the_data_set_and_what_to_do(site):
    client, is_offline = site
    label, note = shown(client)
    if is_offline:
        assert label == "Fashion-MNIST (not here)"
        assert "dataset-fashion-mnist" in note
        assert "Adult income can be used now" in note
    else:
        assert label == "Fashion-MNIST (31 MB to load)"
        assert "the first run that uses it downloads 31 MB" in note


def test_a_page_that_was_shown_before_notices_the_files(site, folder):
    client, _ = site
    assert shown(client)[0] != "Fashion-MNIST"
    for file in sets.FETCHED[NAME].files:
        place = folder / file.path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.touch()
    label, note = shown(client)
    assert label == "Fashion-MNIST"
    assert "machine" not in note


@pytest.mark.parametrize("group", [False, True], ids=["a run", "a group"])
def test_offline_a_run_is_refused_at_its_launch(site, folder, group):
    client, is_offline = site
    seeds = [{"seed": 1}, {"seed": 2}]
    several = {"purpose": "seeds", "base": RUN, "variations": seeds}
    body = several if group else RUN
    answer = client.post("/api/v1/groups" if group else "/api/v1/runs", json=body)
    if not is_offline:
        assert answer.status_code == 201, answer.text
        return
    assert answer.status_code == 422, answer.text
    error = answer.json["error"]
    assert error["field"] == "dataset"
    file = sets.FETCHED[NAME].files[0]
    told = (
        "train-images-idx3-ubyte.gz",
        str(folder / "fashion-mnist"),
        file.sha256,
        "dpsgd data fetch fashion_mnist",
        "Adult income can be used now",
    )
    assert [part for part in told if part not in error["message"]] == []
    assert client.get("/api/v1/runs").json["runs"] == []


def test_the_trainer_starts_with_adult_where_the_usual_data_is_absent(
    without_mnist, site
):
    client, is_offline = site
    page = client.get("/train/").text
    config = page_data(page)["config"]
    assert config["dataset"] == "adult"
    assert config["target_epsilon"] == 1.0  # settings of its preset
    [said] = re.findall(r"<p[^>]* data-absent>(.*?)</p>", page)
    assert "The usual data set is MNIST digits." in said
    assert ("dpsgd data fetch mnist" if is_offline else "downloads 12 MB") in said
    asked = client.get("/train/?dataset=mnist").text
    assert page_data(asked)["config"]["dataset"] == "mnist"
    assert "data-absent" not in asked
    assert client.get("/").status_code == 200


def test_the_trainer_starts_with_the_usual_data_where_it_is(site):
    client, _ = site
    page = client.get("/train/").text
    usual = TrainingConfig.parse({})
    assert page_data(page)["config"] == usual.model_dump(mode="json")
    assert "data-absent" not in page


def test_the_attack_lab_starts_with_adult_where_the_usual_data_is_absent(
    without_mnist, site
):
    client, _ = site
    page = client.get("/labs/attack/").text
    assert re.search(r'<option value="adult"[^>]* selected', page)
    assert "data-absent" in page


@pytest.mark.parametrize("kind", ["training", "attack"])
def test_offline_the_usual_data_is_refused_by_name_where_it_is_absent(
    without_mnist, site, kind
):
    client, is_offline = site
    answer = client.post("/api/v1/runs", json={"kind": kind})
    assert answer.status_code == (422 if is_offline else 201), answer.text
    assert ("dpsgd data fetch mnist" in answer.text) is is_offline
