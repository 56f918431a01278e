"""What is large goes through clipping in pieces, what is small all at once."""

import pytest
import torch

from dpsgd_explorer.dp.backends import torch as torch_backend
from dpsgd_explorer.dp.engines.deferred_gradients import DeferredGradients
from tests.dp.engines.test_engines_agree import EXACT
from tests.dp.engines.test_norm_choice import Sequences
from tests.dp.nets import attached, clipped_sum, step

SAMPLES = 8
FITS = 3 * 2 * (64 * 64 + 64) * 8  # three samples' gradients of the two large layers


def batch():
    torch.manual_seed(0)
    net = Sequences().double()
    x = torch.randn(SAMPLES, 9, 64, dtype=torch.float64)
    return net, x, torch.arange(SAMPLES) % 3


@pytest.fixture
def pieces(monkeypatch):
    """Make pieces of the batch small, and note how each pass was divided."""
    seen = []
    split = DeferredGradients.split

    def noted(samples):
        whole, pieces = split(samples)
        pieces = list(pieces)
        seen.append((whole, [len(piece) for piece in pieces]))
        return whole, iter(pieces)

    monkeypatch.setattr(torch_backend, "CHUNK_BYTES", FITS)
    monkeypatch.setattr(DeferredGradients, "split", noted)
    return seen


@pytest.mark.parametrize("style", ["all-layer", "layer-wise", "param-wise"])
@pytest.mark.parametrize("bad", [[], [0], [3, 7], list(range(SAMPLES))])
def test_the_sum_is_that_of_a_loop(bad, style, pieces):
    net, x, y = batch()
    x[bad] = torch.inf
    good = [i for i in range(SAMPLES) if i not in bad]
    options = {"clipping_style": style, "max_grad_norm": 0.3}
    expected = clipped_sum(net, x[good], y[good], engine="microbatch", **options)
    instantiate = {"clipping_mode": "instantiate", **options}
    actual = clipped_sum(net, x, y, **instantiate)
    torch.testing.assert_close(actual, expected, **EXACT)
    whole, sizes = pieces[-1]
    assert set(whole.materialize()) >= {"norm.weight", "norm.bias"}
    assert len(sizes) > 2
    assert sum(sizes) == SAMPLES


def test_every_sample_is_counted_once(pieces):
    net, x, y = batch()
    x[2] = torch.nan
    engine, optimizer = attached(net, clipping_mode="instantiate")
    step(net, optimizer, x, y)
    assert len(pieces[-1][1]) > 2
    assert engine.diagnostics.non_finite == 1
    assert engine.diagnostics.batch_size == SAMPLES
    assert engine.diagnostics.norms.isfinite().sum() == SAMPLES - 1


def test_what_fits_is_not_divided(pieces):
    net, x, y = batch()
    clipped_sum(net, x, y, clipping_mode="ghost")
    assert pieces[-1] == (None, [SAMPLES])


@pytest.mark.parametrize(
    ("size", "divided"),
    [
        (3, [3]),
        (4, [2, 2]),  # a third more than fits: two pieces
        (7, [3, 3, 1]),
        (8, [3, 3, 2]),
        (12, [3, 3, 3, 3]),
    ],
)
def test_pieces_are_as_few_as_fit(size, divided, pieces):
    torch.manual_seed(0)
    x = torch.randn(size, 9, 64, dtype=torch.float64)
    y = torch.arange(size) % 3
    clipped_sum(Sequences().double(), x, y, clipping_mode="instantiate")
    assert pieces[-1][1] == divided


def test_a_piece_may_be_a_little_larger_where_that_saves_another(pieces, monkeypatch):
    monkeypatch.setattr(torch_backend, "CHUNK_BYTES", int(FITS * 7.9 / 3))
    net, x, y = batch()
    clipped_sum(net, x, y, clipping_mode="instantiate")
    assert pieces[-1][1] == [SAMPLES]
