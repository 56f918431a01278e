"""The compiled steps of an LSTM against torch's of twice the precision."""

import re
from functools import cache

import pytest
import torch
from torch import nn

from dpsgd_explorer.dp.kernels import lstm_steps
from dpsgd_explorer.dp.kernels.threads import threads
from dpsgd_explorer.dp.layers.lstm_cell import CompiledElements, TorchElements
from tests.dp.c_sources import compiled_from, compiled_with_fault
from tests.dp.layers.oracle import (
    Case,
    engine_gradients,
    loop_gradients,
    observe,
    random_slopes,
)
from tests.dp.layers.sequence_cases import Recurrence
from tools.compile_noise import ROOT
from tools.fit_box_muller import written
from tools.fit_exponential import constants, fit

SOURCE = "dpsgd_explorer/dp/kernels/lstm_steps.c"
#: Roundings: of the products in a step, and of the exponentials below them.
CLOSE = {"rtol": 1e-5, "atol": 2e-6}
SHAPES = [(3, 2, 5), (1, 1, 1), (4, 9, 3), (2, 17, 33), (5, 8, 16), (2, 130, 64)]


@cache
def compiled_steps():
    """Compile today's source and load it."""
    return compiled_from(ROOT, lstm_steps)


@pytest.fixture(autouse=True)
def _compiled(monkeypatch):
    monkeypatch.setattr(lstm_steps, "installed", compiled_steps)


def passes(kind, shape, dtype, *, ragged=False):
    """Return what the steps make of random gates, forward and then backward."""
    steps, batch, hidden = shape
    torch.manual_seed(0)
    gates, dms = torch.randn(steps, batch, 4 * hidden) * 3, torch.randn(shape)
    c, dc = torch.randn(batch, hidden), torch.randn(batch, hidden)
    lengths = torch.randint(steps + 1, (batch,)) if ragged else torch.tensor(steps)
    active = (torch.arange(steps)[:, None] < lengths).expand(steps, batch).to(dtype)
    gates, dms, c, dc = (value.to(dtype) for value in (gates, dms, c, dc))
    outputs = torch.empty_like(dms)
    elements = kind(gates, outputs, active.unsqueeze(2) if ragged else None)
    for t in range(steps):
        c = elements.forward(t, c)
    activated = gates.clone()
    for t in reversed(range(steps)):
        dc = elements.backward(t, dms[t], dc)
    return [value.double() for value in (activated, outputs, c, gates, dc)]


def is_right(shape, *, ragged):
    found = passes(CompiledElements, shape, torch.float32, ragged=ragged)
    expected = passes(TorchElements, shape, torch.float64, ragged=ragged)
    pairs = zip(found, expected, strict=True)
    return all(torch.allclose(one, other, **CLOSE) for one, other in pairs)


@pytest.mark.parametrize("ragged", [False, True])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("number", [1, 3])
def test_a_step_is_that_of_torch(shape, ragged, number, monkeypatch):
    monkeypatch.setattr(lstm_steps, "MANY", 1)
    with threads(number):
        assert is_right(shape, ragged=ragged)


def activated(values):
    """Return sigmoid and tanh of values, by the compiled step."""
    rows = torch.tensor(values).unsqueeze(1)
    gates = rows.repeat(1, 4)
    CompiledElements(gates[None], torch.empty(1, len(rows), 1), None).forward(
        0, torch.zeros(len(rows), 1)
    )
    return gates[:, 0], gates[:, 2]


def test_functions_have_almost_all_digits_of_a_float():
    sizes = torch.logspace(-12, 1.9, 5000)
    values = torch.cat([sizes, -sizes])
    wide = values.double()
    for found, expected in zip(
        activated(values.tolist()), (wide.sigmoid(), wide.tanh()), strict=True
    ):
        error = (found.double() - expected).abs() / expected.abs()
        assert error.max() < 4 * 2**-24


def test_ends_of_the_floats_saturate_and_nan_stays():
    infinity, nan = float("inf"), float("nan")
    sigmoid, tanh = activated([infinity, 3e38, 88.0, 0.0, -0.0, -infinity, nan])
    assert sigmoid[:5].tolist() == [1.0, 1.0, 1.0, 0.5, 0.5]
    assert 0 <= sigmoid[5] < 1e-37
    assert tanh[:6].tolist() == [1.0, 1.0, 1.0, 0.0, 0.0, -1.0]
    assert sigmoid[6].isnan()
    assert tanh[6].isnan()


@pytest.mark.parametrize("place", range(4))
def test_nan_in_one_gate_reaches_the_gradients_of_its_sample_alone(place):
    gates, outputs = torch.randn(1, 3, 8), torch.empty(1, 3, 2)
    gates[0, 1, 2 * place] = float("nan")
    elements = CompiledElements(gates, outputs, None)
    elements.forward(0, torch.ones(3, 2))
    assert outputs.isnan().any(2).tolist() == [[False, True, False]]
    dc = elements.backward(0, torch.ones(3, 2), torch.ones(3, 2))
    assert gates.isnan().any(2).tolist() == [[False, True, False]]
    assert dc.isnan().any(1).tolist()[::2] == [False, False]


@pytest.mark.filterwarnings("ignore:LSTM with projections")  # torch's own is slower
@pytest.mark.parametrize("options", [{}, {"proj_size": 3}, {"bias": False}], ids=str)
@pytest.mark.parametrize(
    ("packs", "size"), [(False, 0), (False, 1), (False, 5), (True, 1), (True, 5)]
)
def test_a_layer_of_floats_has_each_samples_gradients(packs, options, size):
    torch.manual_seed(0)
    layer = nn.LSTM(3, 6, 2, bidirectional=True, batch_first=True, **options)
    lengths = torch.arange(size) % 4 + 1
    case = Case(Recurrence(layer, packs), (torch.randn(size, 4, 3), lengths))
    slopes = random_slopes(case)
    found = engine_gradients(observe(case, slopes)[0], case.net)
    for name, expected in loop_gradients(case, slopes).items():
        torch.testing.assert_close(found[name], expected, rtol=1e-4, atol=1e-5)


def test_other_precisions_are_left_to_torch():
    assert lstm_steps.serves(torch.empty(1))
    for other in (torch.empty(1).double(), torch.empty(1).bfloat16()):
        assert not lstm_steps.serves(other)
    assert not lstm_steps.serves(torch.empty(1, device="meta"))


def test_its_constants_are_those_that_the_fit_prints():
    source = (ROOT / SOURCE).read_text(encoding="utf-8")
    found = {
        name: re.findall(r"-?0x[\d.a-f]+p-?\d+f", text)
        for name, text in re.findall(r"static const float (\w+)\S* = ([^;]+);", source)
    }
    for name, values in constants().items():
        assert found[name] == [*map(written, values)]
    assert fit().error < 1 / 7


FAULTS = {
    "the forget gate's slope": ("* (f * (1 - f))", "* f"),
    "the candidate's slope": ("dc * i * (1 - g * g)", "dc * i"),
    "the memory's gradient stays": ("of_memory[j] = dc * f", "of_memory[j] = dc"),
    "the output is not squashed": ("output[j] = o * tanh_c", "output[j] = o * c"),
    "samples are left out": ("*first + AT_ONCE", "*first + AT_ONCE / 2"),
    "who has ended is forgotten": ("is_active ? c : before[j]", "c"),
    "gates after the end": ("step->gates[4 * at + j] = 0", "continue"),
    "a coefficient": ("0x1.555554p-3f", "0x1.565554p-3f"),
}


@pytest.mark.long("mutation of every rule")
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_the_compiled_source_is_seen(fault, tmp_path, monkeypatch):
    compiled = compiled_with_fault(tmp_path, lstm_steps, SOURCE, FAULTS[fault])
    monkeypatch.setattr(lstm_steps, "installed", lambda: compiled)
    assert not all(is_right((4, 12, 5), ragged=ragged) for ragged in (False, True))


def test_a_library_of_another_version_is_not_called(tmp_path):
    fault = ("ptrdiff_t samples, hidden;", "ptrdiff_t more, samples, hidden;")
    assert compiled_with_fault(tmp_path, lstm_steps, SOURCE, fault) is None
