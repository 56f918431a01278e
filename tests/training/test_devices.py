"""A run computes on its device, and its results do not depend on the device."""

import io
import itertools

import pytest
import torch

from dpsgd_explorer.dp.backends import using
from dpsgd_explorer.dp.backends.torch import TorchBackend
from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.experiments.experiment import PerformanceSettings
from dpsgd_explorer.training import devices
from dpsgd_explorer.training.artifacts import packed, unpacked
from dpsgd_explorer.training.dp_sgd import TrainingExperiment
from dpsgd_explorer.training.language_model import pretrained, written
from tests.training.pretend_device import pretended

LONG = pytest.mark.long("real runs")
ADULT = [
    pytest.param({"private": False, "optimizer": "adam"}, id="not private"),
    pytest.param({"audit": 50}, id="private", marks=LONG),
    pytest.param({"noise_bands": 3, "steps": 7}, id="correlated noise", marks=LONG),
]
CASES = [
    *ADULT,
    *(
        pytest.param(
            {"dataset": dataset, "model": model, "steps": 2, "optimizer": "adam"},
            id=model,
            marks=LONG,
        )
        for dataset, model in [
            ("signals", "conv1d"),
            ("mnist", "cnn"),
            ("mnist", "scattering_linear"),
        ]
    ),
]


@pytest.fixture(autouse=True)
def computed_by_torch():
    """Let the CPU compute as any other device does."""
    with using(TorchBackend()):
        yield


def run(config, device="cpu", checkpoint=None):
    performance = PerformanceSettings(device=device, kernels="off")
    return TrainingExperiment(config, checkpoint=checkpoint, performance=performance)


def told(events):
    """Return events without times and without the device."""
    timeless = [event.timeless() for event in events]
    return [
        (kind, {name: x for name, x in data.items() if name != "device"})
        for kind, data in timeless
    ]


@pytest.mark.parametrize("settings", CASES)
def test_a_device_computes_what_the_cpu_computes(adult, settings):
    config = adult(**settings)
    on_cpu = run(config)
    expected = told(on_cpu.events())
    with pretended() as device:
        on_device = run(config, device)
        assert {p.device.type for p in on_device._model.parameters()} == {device}
        assert told(on_device.events()) == expected
        weights = on_device.weights()
    for name, values in on_cpu.weights().items():
        assert values.equal(weights[name])


@pytest.mark.parametrize("settings", ADULT)
def test_a_run_resumes_on_another_device(adult, settings):
    config = adult(**settings)
    whole = told(run(config).events())
    count = len(whole) // 2
    with pretended() as device:
        begun = run(config, device)
        list(itertools.islice(begun.events(), count))
        checkpoint = begun.checkpoint()
    back = run(config, checkpoint=checkpoint)
    assert told(itertools.islice(back.events(), 1)) == whole[count : count + 1]
    checkpoint = back.checkpoint()
    with pretended() as device:
        assert told(run(config, device, checkpoint).events()) == whole[count + 1 :]


@pytest.mark.parametrize("private", [True, pytest.param(False, marks=LONG)])
def test_the_microscope_shows_a_step_on_a_device(adult, private):
    config = adult(private=private, steps=1, evaluations=1)

    def shown(device):
        looking = run(config, device)
        looking.examine_next_step()
        events = [e.timeless()[1] for e in looking.events() if e.kind == "microscope"]
        return events[0]

    with pretended() as device:
        there = shown(device)
    assert there == shown("cpu")
    assert there["records"] > 0


@LONG
def test_a_language_model_writes_on_a_device():
    model = pretrained()
    texts = written(model, "The", count=2)
    with pretended() as device:
        assert written(model.to(device), "The", count=2) == texts


def test_only_a_run_on_a_device_names_it(adult):
    [first] = itertools.islice(run(adult()).events(), 1)
    assert "device" not in first.data
    with pretended() as device:
        [first] = itertools.islice(run(adult(), device).events(), 1)
    assert first.data["device"] == device


def test_a_checkpoint_of_a_gpu_is_read_without_one(monkeypatch):
    monkeypatch.setattr(torch.serialization, "location_tag", lambda storage: "cuda:0")
    checkpoint = packed({"weights": torch.arange(3.0)})
    if not torch.cuda.is_available():
        with pytest.raises(RuntimeError, match="CUDA"):
            torch.load(io.BytesIO(checkpoint), weights_only=True)
    assert unpacked(checkpoint)["weights"].tolist() == [0.0, 1.0, 2.0]
    assert unpacked(checkpoint)["weights"].device.type == "cpu"


def test_automatic_is_a_gpu_where_there_is_one():
    expected = "cuda" if torch.cuda.is_available() else "cpu"
    assert devices.find("auto").type == expected


def test_a_gpu_that_torch_does_not_find_is_refused_by_name():
    with pytest.raises(ConfigError, match=r"^DPSGD_DEVICE must .* got cuda:99: .* fin"):
        devices.find("cuda:99")
