"""The compiled steps of an LSTM against torch's of twice the precision."""

import re

import pytest
import torch
from torch import nn

from dpsgd_explorer.dp.backends.native import lstm_steps
from dpsgd_explorer.dp.backends.native.lstm_steps import LSTMSteps, Sequence
from dpsgd_explorer.dp.layers.lstm_cell import LSTMCell
from dpsgd_explorer.dp.layers.rewrite import LayerPart
from dpsgd_explorer.training.cpu.threads import threads
from tests.dp.c_sources import compiled_today, compiled_with_fault
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

SOURCE = "dpsgd_explorer/dp/backends/native/lstm_steps.c"
#: Roundings: of the products in a step, and of the exponentials below them.
CLOSE = {"rtol": 1e-5, "atol": 2e-6}
#: T, B, H and P: below, at and above a vector, a block and what a thread takes.
SHAPES = [
    *[(3, 2, 5, 5), (1, 1, 1, 1), (4, 9, 3, 3), (2, 17, 33, 33), (5, 8, 16, 16)],
    *[(2, 130, 20, 20), (3, 5, 16, 7), (2, 33, 40, 33), (0, 2, 3, 3), (2, 0, 3, 2)],
]


@pytest.fixture(autouse=True)
def _compiled(monkeypatch):
    monkeypatch.setattr(lstm_steps, "installed", lambda: compiled_today(lstm_steps))


def with_lanes(compiled, lanes):
    """Return the functions with vectors of so many numbers, if there are."""
    return LSTMSteps(*(f._replace(lanes=min(lanes, f.lanes)) for f in compiled))


def weights(hidden, outputs):
    """Return an LSTM of 3 inputs, and its projection if there is one."""
    torch.manual_seed(0)
    size = outputs if outputs != hidden else 0
    lstm = nn.LSTM(3, hidden, proj_size=size)
    return lstm, lstm.weight_hr_l0.detach() if size else None


def passes(shape, dtype, *, ragged=False, reverse=False):
    """Return what a cell makes of random inputs, forward and then backward."""
    steps, batch, hidden, outputs = shape
    lstm, projection = weights(hidden, outputs)
    x, dm = torch.randn(steps, batch, 3) * 3, torch.randn(steps, batch, outputs)
    h, dh = torch.randn(batch, outputs), torch.randn(batch, outputs)
    c, dc = torch.randn(batch, hidden), torch.randn(batch, hidden)
    lengths = torch.randint(steps + 1, (batch,)) if ragged else torch.tensor(steps)
    active = (torch.arange(steps)[:, None] < lengths).expand(steps, batch).to(dtype)
    if projection is not None:
        projection = projection.to(dtype)
    names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    part = LayerPart(lstm.to(dtype), {name: f"{name}_l0" for name in names})
    cell = LSTMCell(part, projection, active.unsqueeze(2) if ragged else None, reverse)
    x, dm, h, dh, c, dc = (value.to(dtype) for value in (x, dm, h, dh, c, dc))
    forward = [value.clone() for value in cell.run(x, h, c)]
    read = cell.unprojected.clone(), cell.hidden_before.clone()
    backward = cell.back(dm, dh, dc)
    gradients = [] if projection is None else [cell.projected_gradients]
    return [value.double() for value in (*forward, *read, *backward, *gradients)]


def is_right(shape, **options):
    found = passes(shape, torch.float32, **options)
    expected = passes(shape, torch.float64, **options)
    pairs = zip(found, expected, strict=True)
    return all(torch.allclose(one, other, **CLOSE) for one, other in pairs)


@pytest.mark.filterwarnings("ignore:LSTM with projections")
@pytest.mark.parametrize("ragged", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("lanes", [16, 8])
@pytest.mark.parametrize("number", [1, 3])
def test_steps_are_those_of_torch(shape, ragged, reverse, lanes, number, monkeypatch):
    compiled = with_lanes(compiled_today(lstm_steps), lanes)
    monkeypatch.setattr(lstm_steps, "installed", lambda: compiled)
    monkeypatch.setattr(lstm_steps, "MIN_PARALLEL_PRODUCTS", 1)
    with threads(number):
        assert is_right(shape, ragged=ragged, reverse=reverse)


def test_neither_threads_nor_samples_beside_it_change_a_bit(monkeypatch):
    monkeypatch.setattr(lstm_steps, "MIN_PARALLEL_PRODUCTS", 1)
    lstm, _ = weights(20, 20)
    gates, h, c = torch.randn(4, 50, 80), torch.randn(50, 20), torch.randn(50, 20)

    def outputs(number, part):
        with threads(number):
            own = gates[:, part].clone(), h[part].clone(), c[part].clone()
            run = Sequence(*own, lstm.weight_hh_l0.detach(), None, None, False)
            run.forward()
            run.backward(torch.ones_like(run.outputs), h[part].clone(), c[part].clone())
            return run.outputs, run.gates, run.hidden_before.transpose(0, 1)

    one, three = outputs(1, slice(None)), outputs(3, slice(None))
    for whole, other, alone in zip(one, three, outputs(1, slice(13, 14)), strict=True):
        assert torch.equal(whole, other)
        assert torch.equal(whole[:, 13:14], alone)


def run_once(gates, c):
    """Return one step of gates [B, 4 H], without weights."""
    weight, h = torch.zeros(gates.shape[1], c.shape[1]), torch.zeros_like(c)
    run = Sequence(gates[None].clone(), h, c.clone(), weight, None, None, False)
    run.forward()
    return run


def activated(values):
    """Return sigmoid and tanh of values, by the compiled steps."""
    rows = torch.tensor(values).unsqueeze(1)
    gates = run_once(rows.repeat(1, 4), torch.zeros(len(rows), 1)).gates[0]
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
    gates = torch.randn(3, 8)
    gates[1, 2 * place] = float("nan")
    run = run_once(gates, torch.ones(3, 2))
    assert run.outputs[0].isnan().any(1).tolist() == [False, True, False]
    run.backward(torch.ones(1, 3, 2), torch.zeros(3, 2), torch.ones(3, 2))
    assert run.gates[0].isnan().any(1).tolist() == [False, True, False]
    assert run.memory.isnan().any(1).tolist()[::2] == [False, False]


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
    assert lstm_steps.is_supported(torch.empty(1))
    for other in (torch.empty(1).double(), torch.empty(1).bfloat16()):
        assert not lstm_steps.is_supported(other)
    assert not lstm_steps.is_supported(torch.empty(1, device="meta"))


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
    "samples are left out": ("at_most(first + job->unit,", "at_most(first + 1,"),
    "who has ended is forgotten": ("is_active ? c : before[j]", "c"),
    "gates after the end": (
        "memset(job->gates + 4 * at, 0, 4 * 4 * hidden)",
        "memset(job->gates + 4 * at, 0, 0)",
    ),
    "a coefficient": ("0x1.555554p-3f", "0x1.565554p-3f"),
    "rows of a product are one": ("at_most(first + r, rows - 1)", "0"),
    "a product replaces what the inputs give": (
        "if (adds) copy(part, to, count);",
        "memset(part, 0, 4 * count);",
    ),
    "half of a product's columns": ("sum[r][1] += row[r][k] * high;", ""),
    "blocks of a matrix are one": ("o / BLOCK * BLOCK * inputs", "0"),
    "steps back run forward": (
        "job->is_reverse ? step : job->steps - 1 - step",
        "job->is_reverse ? job->steps - 1 - step : step",
    ),
    "gradients of later steps are lost": ("arriving[j] + later[j]", "arriving[j]"),
}


@pytest.mark.filterwarnings("ignore:LSTM with projections")
@pytest.mark.long("mutation of every rule")
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_the_compiled_source_is_seen(fault, tmp_path, monkeypatch):
    compiled = compiled_with_fault(tmp_path, lstm_steps, SOURCE, FAULTS[fault])
    monkeypatch.setattr(lstm_steps, "installed", lambda: compiled)
    shapes = (4, 42, 35, 35), (3, 12, 40, 33)
    assert not all(is_right(s, ragged=ragged) for s in shapes for ragged in (0, 1))
