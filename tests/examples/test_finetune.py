"""The language model of examples/finetune, its weights, its texts and its secret."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors import safe_open

from dpsgd_explorer.training import language_model as model
from dpsgd_explorer.training.datasets import sentences as texts
from examples.finetune import canary, losses, pretrain

ROOT = Path(__file__).parents[2]


def facts(path=model.WEIGHTS):
    with safe_open(path, "pt") as file:
        return file.metadata()


def test_the_weights_are_those_that_their_metadata_describe():
    stored = facts()
    weights = model.pretrained()
    assert sum(p.numel() for p in weights.parameters()) == int(stored["parameters"])
    assert pretrain.digest(weights) == stored["weights_sha256"]
    assert model.WEIGHTS.stat().st_size <= 4e6


def test_the_weights_predict_public_text_as_their_metadata_say():
    """The pages change; the loss on them stays close to that of the training's day."""
    held_out = pretrain.windows_of(pretrain.public_text())[1]
    bits = losses.bits_per_byte(model.pretrained(), held_out)
    stated = float(facts()["held_out_bits_per_byte"])
    assert bits == pytest.approx(stated, abs=0.2)
    assert stated < 3.5  # a random byte has 8 bits


def test_the_pre_training_is_deterministic(tmp_path, monkeypatch):
    monkeypatch.setattr(pretrain, "HELD_OUT_BYTES", 1000)
    for name in ("first", "second"):
        monkeypatch.setattr(pretrain, "WEIGHTS", tmp_path / name)
        pretrain.main(steps=3)
    assert facts(tmp_path / "first") == facts(tmp_path / "second")


def test_every_person_is_one_well_formed_sentence():
    people = texts.sentences("train")
    assert len(people) == 32_561
    assert all(texts.SENTENCE.fullmatch(text) for text in people)
    assert not texts.SENTENCE.fullmatch("A single woman of 30 works 40 hours in love.")
    first = texts.encode(people[:1])[0]
    assert bytes(first[first != texts.PADDING].tolist()).decode() == f"\n{people[0]}\n"
    with pytest.raises(ValueError, match="at most 55 bytes"):
        texts.encode(["a" * 56])


def test_the_likelihood_of_a_number_is_that_of_its_digits():
    torch.manual_seed(0)
    weights = model.pretrained()
    of_numbers = canary.number_losses(weights)
    for number in (0, 42, 9876):
        ids = texts.encode([f"{canary.START}{number:04d}"])
        values = losses.losses_of(weights, ids)
        start = len(canary.START)
        expected = values[0, start : start + 4].sum()
        torch.testing.assert_close(of_numbers[number], expected, rtol=1e-4, atol=1e-4)


@pytest.mark.long("every example")
def test_a_short_private_training_learns_within_its_budget():
    command = [sys.executable, "-m", "examples.finetune.finetune"]
    ended = subprocess.run(
        [*command, "--method", "biases", "--epsilon", "3", "--steps", "6"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    before, after = re.findall(r"(\d\.\d+) bits per byte", ended.stdout)
    assert float(after) < float(before) - 0.3
    [epsilon] = re.findall(r"^ε = (\d+\.\d+), δ = 1e-05", ended.stdout, re.MULTILINE)
    assert 2.7 <= float(epsilon) <= 3


@pytest.mark.long("every example")
def test_the_secret_is_recited_without_privacy_and_not_with_it(monkeypatch, capsys):
    """With fewer persons the number is learned sooner; the example takes a minute."""
    monkeypatch.setattr(canary, "PERSONS", 200)
    monkeypatch.setattr(canary, "BATCH_SIZE", 32)
    monkeypatch.setattr(canary, "STEPS", 60)
    canary.main()
    printed = capsys.readouterr().out
    ranks = re.findall(r"rank of the true number: ([\d,]+) of 10,000", printed)
    before, recited, private = (int(rank.replace(",", "")) for rank in ranks)
    assert recited == 1 < min(before, private)
    _, number, other = re.findall(rf"continues: {canary.START}(\d{{4}})", printed)
    assert int(number) == canary.NUMBER != int(other)
    one, group = re.findall(r"ε = (\d+\.\d+)", printed)
    assert float(one) <= 1 < float(group)
