"""The architectures are the published ones, and are trained as the table says."""

from dataclasses import replace

import pytest
import torch

from benchmarks import record, report
from benchmarks.architectures import measure, ways
from benchmarks.architectures.cases import ARCHITECTURES
from benchmarks.architectures.ways import WAYS

SMALL = 4


@pytest.fixture
def small_parts(monkeypatch):
    monkeypatch.setattr(ways, "PART", SMALL)


@pytest.mark.parametrize("name", ["lora", "bias_only", "gpt2"])
def test_what_is_frozen_stays_and_what_is_tied_is_one(name):
    model = ARCHITECTURES[name].model()
    trained = {n for n, p in model.named_parameters() if p.requires_grad}
    if name == "lora":
        assert trained
        assert all(".down." in n or ".up." in n for n in trained)
    elif name == "bias_only":
        assert all(n.endswith("bias") or "classifier" in n for n in trained)
    else:
        assert model.head.weight is model.words.weight


def test_resnet_has_the_published_number_of_parameters():
    # torchvision's ResNet-18 has 11,689,512: 513,000 in its head of 1,000 classes and
    # 9,408 in a stem of 7 by 7, where ours has 5,130 and 1,728.
    model = ARCHITECTURES["resnet18"].model()
    count = sum(p.numel() for p in model.parameters())
    assert count == 11_689_512 - 513_000 - 9_408 + 5_130 + 1_728


@pytest.mark.long("real runs")
@pytest.mark.parametrize("name", list(ARCHITECTURES))
def test_an_architecture_is_trained_in_parts(name, small_parts):
    case = replace(ARCHITECTURES[name], batch=2 * SMALL)
    for way in ("ordinary", "hooks"):
        WAYS[way][1](case).run()


def test_a_private_step_in_parts_is_the_step_of_the_whole_batch(monkeypatch):
    monkeypatch.setattr(ways, "NOISE_MULTIPLIER", 0.0)
    case = replace(ARCHITECTURES["lstm"], batch=2 * SMALL, inputs=(6,))
    weights = []
    for part in (SMALL, 2 * SMALL):
        monkeypatch.setattr(ways, "PART", part)
        model = case.model()
        WAYS["hooks"][1](replace(case, make=lambda model=model: model)).run()
        weights.append(torch.cat([p.detach().flatten() for p in model.parameters()]))
    before = torch.cat([p.detach().flatten() for p in case.model().parameters()])
    torch.testing.assert_close(weights[0] - before, weights[1] - before)
    assert not torch.equal(weights[0], before)


def test_the_table_names_what_is_left_out_and_the_floor():
    measured = {"milliseconds": 2e3, "extra_mib": 100.0, "trained": 7}
    ours = measured | {"ratio": 1.1, "floor": 1.02, "wall_ratio": 1.2, "extra_mib": 110}
    rows = [
        {"architecture": "gpt2", "way": "ordinary", "ratio": 1.0, **measured},
        {"architecture": "gpt2", "way": "hooks", "wall_floor": 1.03, **ours},
        {"architecture": "gpt2", "way": "opacus_hooks", "skipped": "tied weights"},
    ]
    text = report._architectures({"date": "", **record.origin(), "rows": rows})
    assert "| GPT-2 | 7 | 2.00 | 1.02 | **1.10** | 1.03 | 1.20 | 1.10 | – | – |" in text
    assert "- Not measured, GPT-2, Opacus hooks: tied weights." in text
    assert set(measure.TRAINING_WAYS) | {"normals"} == set(WAYS)
