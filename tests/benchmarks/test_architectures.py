"""The architectures are the published ones, and are trained as the table says."""

from dataclasses import replace

import pytest
import torch

from benchmarks import record, report
from benchmarks.accelerator import cases as accelerator
from benchmarks.architectures import measure, ways
from benchmarks.architectures.cases import ARCHITECTURES
from benchmarks.architectures.ways import WAYS

SMALL = 4


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


def test_models_of_published_size_have_the_published_number_of_parameters():
    # GPT-2: "124M" and "355M" (Radford et al. 2019).  ViT-B/16: torchvision's vit_b_16
    # has 86,567,656.  ResNet-50: torchvision's resnet50 has 25,557,032.
    assert accelerator.parameters("gpt2") == 124_439_808
    assert accelerator.parameters("gpt2_medium") == 354_823_168
    assert accelerator.parameters("vit") == 86_567_656
    assert accelerator.parameters("resnet50") == 25_557_032


def test_an_untied_head_has_a_weight_of_its_own():
    tied, untied = map(accelerator.parameters, ("gpt2", "gpt2_untied"))
    assert untied - tied == 50_257 * 768


@pytest.mark.long("benchmarks")
@pytest.mark.parametrize("name", list(ARCHITECTURES))
def test_an_architecture_is_trained_in_parts(name):
    case = replace(ARCHITECTURES[name], samples=SMALL)
    for way in ("ordinary", "hooks"):
        part = WAYS[way][1](case)
        part(False)
        part(True)


def test_ordinary_and_private_parts_add_up_to_one_step(monkeypatch):
    """Two equal parts, of which the last ends the batch, move weights once."""
    monkeypatch.setattr(ways, "NOISE_MULTIPLIER", 0.0)
    monkeypatch.setattr(ways, "CLIPPING_BOUND", 1e6)
    setting = ways.Setting(parts=2)
    case = replace(ARCHITECTURES["lstm"], samples=SMALL, inputs=(6,))
    before = weights_of(case.model())
    moved = []
    for way in ("ordinary", "hooks"):
        model = case.model()
        part = WAYS[way][1](replace(case, make=lambda model=model: model), setting)
        part(False)
        assert torch.equal(weights_of(model), before)
        part(True)
        moved.append(weights_of(model) - before)
    torch.testing.assert_close(*moved)
    assert moved[0].abs().max() > 0


def weights_of(model):
    return torch.cat([p.detach().flatten() for p in model.parameters()])


def test_a_step_is_its_first_part_fourteen_further_ones_and_its_last():
    now, ended = [0.0], []

    def part(ends):
        now[0] += 100.0 if ends else 10.0 if ended[-1:] == [False] else 1.0
        ended.append(ends)

    seconds = measure._in_turns({"ordinary": part}, 2, lambda: now[0])
    assert seconds == {"ordinary": [1.0 + 14 * 10.0 + 100.0] * 2}
    assert ended == [False, False, True] * 3


def test_the_table_names_what_is_left_out_and_the_floor():
    row = {"trained": 7, "seconds": 2.0, "floor": 1.02, "wall_floor": 1.03}
    base = row | {"ratio": 1.0, "wall_ratio": 1.0, "extra_mib": 100.0}
    ours = row | {"ratio": 1.1, "wall_ratio": 1.2, "extra_mib": 130.0}
    rows = [
        {"architecture": "gpt2", "way": "ordinary", **base},
        {"architecture": "gpt2", "way": "hooks", **ours},
        {"architecture": "gpt2", "way": "opacus_hooks", "skipped": "tied weights"},
    ]
    text = report._architectures({"date": "", **record.origin(), "rows": rows})
    ratios = "1.02 / 1.03 | **1.10** / 1.20 / 1.30 | – | –"
    assert f"| GPT-2 | 7 | 2.00 | {ratios} |" in text
    assert "- Not measured, GPT-2, Opacus hooks: tied weights." in text
