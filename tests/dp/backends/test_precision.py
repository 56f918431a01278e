"""What single and half precision cost, layer by layer, against double precision."""

import copy
import threading

import pytest
import torch
from torch import nn

from dpsgd_explorer.dp import per_sample_gradients
from dpsgd_explorer.dp.backends import using
from dpsgd_explorer.dp.backends.full_precision import full_precision
from dpsgd_explorer.dp.backends.native.backend import NativeBackend
from dpsgd_explorer.dp.backends.torch import TorchBackend
from dpsgd_explorer.errors import ConfigError
from tests.dp.nets import attached, clipped_sum

pytestmark = pytest.mark.filterwarnings(
    "ignore:LSTM with projections"  # of torch, about its own kernels
)


class Everything(nn.Module):
    """Parts of every kind of rule, in one net on [B, 4, 8] numbers."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(4, 8, 3, padding=1, groups=2)
        self.up = nn.ConvTranspose1d(8, 8, 2, stride=2)
        self.norms = nn.Sequential(
            nn.GroupNorm(2, 8), nn.InstanceNorm1d(8, affine=True), nn.PReLU(8)
        )
        self.cells = nn.ModuleList(
            [nn.RNN(8, 8, batch_first=True), nn.GRU(8, 8, batch_first=True)]
        )
        self.cell = nn.LSTM(8, 8, proj_size=4, bidirectional=True, batch_first=True)
        self.mix = nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True)
        self.tokens, self.bags = nn.Embedding(6, 8), nn.EmbeddingBag(6, 8)
        self.scale, self.head = nn.Parameter(torch.rand(8)), nn.Linear(8, 3)

    def forward(self, x):
        ids = (x[:, 0].abs() * 9).long() % 6
        x = self.norms(self.up(torch.tanh(self.conv(x)))).transpose(1, 2) * self.scale
        for cell in self.cells:
            x = cell(x)[0]
        x = self.mix(self.cell(x)[0]).mean(1) + self.tokens(ids).mean(1)
        return self.head(x + self.bags(ids))


def in_precision(dtype):
    torch.manual_seed(0)
    net = Everything().double()
    x, y = torch.randn(6, 4, 8, dtype=torch.float64), torch.randint(0, 3, (6,))
    x = x.to(dtype).double()  # the same inputs, and below the same weights
    for p in net.parameters():
        p.data = p.data.to(dtype).double()
    return net, copy.deepcopy(net).to(dtype), x, y


# float32: some hundred sums of 2^-24 each.  bfloat16: the passes run in it, with 2^-8
# at every operation of two dozen layers; norms and sums do not, and add nothing.
TOLERANCES = {torch.float32: 2e-4, torch.bfloat16: 0.4}


@pytest.mark.parametrize(
    ("dtype", "mode"),
    [
        (torch.float32, "ghost"),
        (torch.float32, "instantiate"),
        *(
            pytest.param(
                torch.bfloat16, mode, marks=pytest.mark.long("every combination")
            )
            for mode in ("ghost", "instantiate")
        ),
    ],
)
def test_lower_precision_gives_nearly_the_same_sum(dtype, mode):
    exact, net, x, y = in_precision(dtype)
    options = {"max_grad_norm": 1.0, "clipping_fn": "Abadi", "clipping_mode": mode}
    expected = clipped_sum(exact, x, y, **options)
    actual = clipped_sum(net, x.to(dtype), y, **options)
    difference = torch.stack(
        [(actual[n].double() - expected[n]).norm() for n in expected]
    )
    whole = torch.stack([g.norm() for g in expected.values()]).norm()
    assert difference.norm() <= TOLERANCES[dtype] * whole


@pytest.mark.parametrize("dtype", TOLERANCES)
def test_gradients_are_held_in_single_precision_or_better(dtype):
    _, net, x, y = in_precision(dtype)
    found = per_sample_gradients(net, nn.functional.cross_entropy, x.to(dtype), y)
    assert {g.dtype for g in found.values()} == {torch.float32}
    assert all(torch.isfinite(g).all() for g in found.values())


def scaled_step(scale, **options):
    """Return the parameters after a step in which half of the samples are clipped."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(8, 16), nn.LayerNorm(16), nn.Linear(16, 3))
    x, y = torch.randn(6, 8), torch.randint(0, 3, (6,))
    scaler = torch.amp.GradScaler("cpu", init_scale=scale)
    _, optimizer = attached(
        net, engine="extending", grad_scaler=scaler, clipping_fn="Abadi",
        max_grad_norm=4.6, noise_multiplier=1.0, **options,
    )  # fmt: skip
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = nn.functional.cross_entropy(net(x), y)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    return {name: p.detach() for name, p in net.named_parameters()}


def test_loss_scaling_does_not_change_the_clipping():
    torch.testing.assert_close(scaled_step(2.0**16), scaled_step(2.0))


def test_a_scaler_that_nothing_heeds_is_refused():
    with pytest.raises(ConfigError, match="engine='extending'"):
        attached(nn.Linear(2, 2), grad_scaler=torch.amp.GradScaler("cpu"))


class LastState(nn.Module):
    """The last state of a recurrent layer, as scores."""

    def __init__(self, kind):
        super().__init__()
        self.layer = kind(8, 3, batch_first=True)

    def forward(self, x):
        return self.layer(x)[0][:, -1].float()


#: Torch computes an LSTM in bfloat16 only on processors with AVX-512.
HAS_AVX512 = torch.backends.cpu.get_cpu_capability().startswith("AVX512")
IN_BFLOAT16 = (nn.RNN, nn.GRU, *([nn.LSTM] if HAS_AVX512 else []))


@pytest.mark.parametrize("engine", ["hooks", "extending"])
@pytest.mark.parametrize(
    ("net", "shape"),
    [
        (lambda: nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 3)), (8,)),
        *[(lambda k=k: LastState(k), (4, 8)) for k in IN_BFLOAT16],
    ],
    ids=["linear", *(kind.__name__ for kind in IN_BFLOAT16)],
)
def test_autocast_is_clipped_like_single_precision(net, shape, engine):
    """The sample is shortened to C: bfloat16 moves its direction, not its length."""
    torch.manual_seed(0)
    net = net()
    x, y = torch.randn(1, *shape), torch.zeros(1, dtype=torch.int64)
    options = {"engine": engine, "clipping_fn": "Abadi", "max_grad_norm": 1e-3}
    plain = clipped_sum(net, x, y, **options)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        cast = clipped_sum(net, x, y, **options)
    for own in (plain, cast):
        norm = torch.cat([g.flatten() for g in own.values()]).norm().item()
        assert norm == pytest.approx(1e-3, rel=1e-5)
    for name, gradient in plain.items():
        assert (cast[name] - gradient).norm() <= 0.05e-3


class Normalised(nn.Module):
    """Layers of many positions, and one whose gradients are made in backward."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv1d(8, 6, 3), nn.LayerNorm(6)
        self.up, self.head = nn.Linear(6, 16), nn.Linear(16, 3)

    def forward(self, x):
        x = self.norm(self.conv(x.mT).mT)
        return self.head(torch.tanh(self.up(x)).mean(1)).float()


class InTwoPrecisions(Normalised):
    """Its first layers in single precision, the others in double."""

    def __init__(self, *, exact=False):
        super().__init__()
        self.up.double(), self.head.double()
        self.exact = exact

    def forward(self, x):
        if self.exact:
            x = x.double()
        x = self.norm(self.conv(x.mT).mT)
        return self.head(torch.tanh(self.up(x.double())).mean(1))


@pytest.mark.parametrize("clipping_style", ["all-layer", "layer-wise"])
@pytest.mark.parametrize(
    ("engine", "mode"),
    [
        *[("hooks", mode) for mode in ("MixOpt", "ghost", "instantiate")],
        *[(engine, "MixOpt") for engine in ("extending", "vmap", "microbatch")],
    ],
)
def test_layers_may_have_different_precisions(engine, mode, clipping_style):
    torch.manual_seed(0)
    net, exact = InTwoPrecisions(), InTwoPrecisions(exact=True).double()
    exact.load_state_dict(net.state_dict())
    x, y = torch.randn(6, 20, 8), torch.randint(0, 3, (6,))
    options = {
        "engine": engine,
        "clipping_mode": mode,
        "clipping_style": clipping_style,
        "max_grad_norm": 0.05,
    }
    expected = clipped_sum(exact, x, y, **options)
    found = clipped_sum(net, x, y, **options)
    for name, gradient in found.items():
        assert gradient.dtype is net.get_parameter(name).dtype
        torch.testing.assert_close(
            gradient.double(), expected[name], rtol=1e-4, atol=1e-7
        )


@pytest.mark.parametrize("backend", [NativeBackend, TorchBackend])
@pytest.mark.parametrize("mode", ["MixOpt", "ghost", "instantiate"])
@pytest.mark.parametrize(
    "make", [Normalised, lambda: LastState(IN_BFLOAT16[-1])], ids=["positions", "last"]
)
def test_backward_inside_autocast_is_clipped_as_outside(make, mode, backend):
    with using(backend()):
        assert_clipped_alike(make, mode)


def assert_clipped_alike(make, mode):
    found = []
    for inside in (False, True):
        torch.manual_seed(0)
        net, x, y = make(), torch.randn(6, 20, 8), torch.randint(0, 3, (6,))
        engine, optimizer = attached(
            net, clipping_fn="Abadi", clipping_mode=mode, max_grad_norm=0.05
        )
        with torch.autocast("cpu", torch.bfloat16):
            loss = nn.functional.cross_entropy(net(x), y)
            if inside:
                loss.backward()
        if not inside:
            loss.backward()
        optimizer.step()
        gradients = torch.cat([p.grad.flatten() for p in net.parameters()])
        found.append((engine.diagnostics.norms, gradients))
    # Autograd's own backward may round in other places inside.
    torch.testing.assert_close(found[1], found[0], rtol=1e-2, atol=1e-4)


def test_whoever_leaves_last_restores_the_permission():
    """Two threads overlap; here their contexts do, which is the same and repeatable."""
    matmul = torch.backends.mkldnn.matmul
    before = matmul.fp32_precision
    matmul.fp32_precision = "bf16"
    try:
        first = full_precision()
        first.__enter__()
        second = full_precision()
        second.__enter__()
        first.__exit__(None, None, None)
        assert matmul.fp32_precision == "ieee"  # the second still computes
        second.__exit__(None, None, None)
        assert matmul.fp32_precision == "bf16"
    finally:
        matmul.fp32_precision = before


def test_threads_never_see_the_permission_inside():
    matmul = torch.backends.mkldnn.matmul
    before = matmul.fp32_precision
    matmul.fp32_precision = "bf16"
    seen = set()

    def look():
        for _ in range(500):
            with full_precision():
                seen.add(matmul.fp32_precision)

    threads = [threading.Thread(target=look) for _ in range(4)]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert seen == {"ieee"}
        assert matmul.fp32_precision == "bf16"
    finally:
        matmul.fp32_precision = before
