"""Steps on a device that runs behind Python: the same gradients, and nothing read.

The expected gradients are those of the processor.
"""

import copy
import weakref

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from benchmarks.architectures.cases import next_word_loss
from benchmarks.architectures.transformers import Gpt2, lora_gpt2
from dpsgd_explorer.dp.backends import using
from dpsgd_explorer.dp.backends.torch import TorchBackend
from dpsgd_explorer.dp.engines import joined_calls
from dpsgd_explorer.errors import MixedLossError
from tests.dp.backends.triton.device import DEVICE, taken_for_an_accelerator
from tests.dp.nets import CLASSES, NETS, attached, flat

SAMPLES = 5
LONG = pytest.mark.long("every combination")
VOCABULARY, LENGTH = 31, 8


class Recurrent(nn.Module):
    def __init__(self, kind=nn.LSTM):
        super().__init__()
        self.layer = kind(4, 6, batch_first=True)
        self.head = nn.Linear(6, CLASSES)

    def forward(self, x):
        return self.head(self.layer(x)[0][:, -1])


class Normalised(nn.Module):
    """Norms over one and over two dimensions, with and without a bias."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.LayerNorm(4),
            nn.Linear(4, 6),
            nn.RMSNorm(6),
            nn.LayerNorm((3, 6), bias=False),
            nn.Flatten(),
            nn.Linear(18, CLASSES),
        )

    def forward(self, x):
        return self.layers(x)


def gpt2():
    return Gpt2(1, 16, 2, LENGTH, VOCABULARY)


def words():
    return torch.randint(VOCABULARY, (SAMPLES, LENGTH))


def classes():
    return torch.randint(CLASSES, (SAMPLES,))


#: {name: (net, inputs, targets, loss)}.
CASES = {
    **{
        name: (make, lambda inputs=inputs: inputs(SAMPLES), classes, F.cross_entropy)
        for name, (make, inputs) in NETS.items()
    },
    "recurrent": (
        Recurrent,
        lambda: torch.randn(SAMPLES, 3, 4),
        classes,
        F.cross_entropy,
    ),
    # torch computes an LSTM in bfloat16 only on processors with AVX-512.
    "rnn": (
        lambda: Recurrent(nn.RNN),
        lambda: torch.randn(SAMPLES, 3, 4),
        classes,
        F.cross_entropy,
    ),
    "norms": (Normalised, lambda: torch.randn(SAMPLES, 3, 4), classes, F.cross_entropy),
    "gpt2": (gpt2, words, words, next_word_loss),
    "lora": (lambda: lora_gpt2(gpt2()), words, words, next_word_loss),
}


QUICK = ["mlp", "tokens", "norms"]
#: What the interpreter takes a quarter of a minute for.
LARGE = ["gpt2"] if DEVICE != "cpu" else []
EACH = [name for name in CASES if DEVICE != "cpu" or name not in ("gpt2", "lora")]


def case(name):
    """Return (net, inputs, targets, loss), the same each time."""
    torch.manual_seed(0)
    make, inputs, targets, loss = CASES[name]
    return make(), inputs(), targets(), loss


def checked(net, x, *args, **options):
    """Attach an engine; its checks would take a minute of the interpreter."""
    engine, optimizer = attached(net, *args, **options)
    if DEVICE == "cpu":
        with using(TorchBackend()):
            net(x)
    return engine, optimizer


def step_of(name, device, *, autocast=False, bad=(), **options):
    """Return the gradient of a second step without noise, and its statistics.

    Args:
        name: A key of CASES.
        device: Where the net is.
        autocast: Whether forward computes in bfloat16.
        bad: Samples whose gradient is made infinite.
        options: Of the engine.
    """
    net, x, y, loss = case(name)
    net, x, y = net.to(device), x.to(device), y.to(device)
    engine, optimizer = checked(
        net, x, learning_rate=0.0, max_grad_norm=0.05, **options
    )
    weights = torch.ones(SAMPLES, device=device)
    weights[list(bad)] = torch.inf
    for _ in range(2):
        optimizer.zero_grad()
        with torch.autocast(device, torch.bfloat16, enabled=autocast):
            outputs = net(x)
        if bad:
            losses = F.cross_entropy(outputs, y, reduction="none")
            (losses * weights).mean().backward()
        else:
            loss(outputs.float(), y).backward()
        optimizer.step()
    made = [p.grad.cpu() for p in net.parameters() if p.grad is not None]
    return flat(made), engine.diagnostics


def compare(name, error, **options):
    """Compare a step on the device with the processor's; return its statistics."""
    exact, expected = step_of(name, "cpu", **options)
    with taken_for_an_accelerator(kernels=options.pop("kernels", True)):
        found, seen = step_of(name, DEVICE, **options)
    assert (found - exact).norm() <= error * exact.norm()
    finite = torch.isfinite(expected.norms)
    norms = seen.norms.cpu()[finite]
    torch.testing.assert_close(norms, expected.norms[finite], rtol=error, atol=0.0)
    assert seen.non_finite == expected.non_finite
    assert seen.clipped_fraction == expected.clipped_fraction
    return seen


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else LONG) for name in CASES]
)
def test_a_step_is_that_of_the_processor(name):
    compare(name, 3e-5)


@LONG
@pytest.mark.parametrize("mode", ["instantiate", "ghost", "MixGhostClip"])
@pytest.mark.parametrize("name", EACH)
def test_so_it_is_by_each_method(name, mode):
    compare(name, 3e-5, clipping_mode=mode)


@LONG
@pytest.mark.parametrize("style", ["layer-wise", "param-wise"])
@pytest.mark.parametrize("name", ["tokens", *LARGE])
def test_so_it_is_with_other_clipping(name, style):
    compare(name, 3e-5, clipping_style=style, clipping_mode="instantiate")


@LONG
@pytest.mark.parametrize("engine", ["extending", "vmap", "microbatch"])
@pytest.mark.parametrize("name", ["mlp", "sequence", "convolutions", "tokens", *LARGE])
@pytest.mark.filterwarnings("ignore:There is a performance drop")  # the processor's
def test_so_it_is_by_other_engines(name, engine):
    compare(name, 3e-5, engine=engine)


@pytest.mark.parametrize("mode", ["instantiate", "ghost"])
@pytest.mark.parametrize(
    "name",
    ["sequence", "convolutions", "tokens", pytest.param("recurrent", marks=LONG)],
)
def test_samples_that_are_not_finite_are_left_out(name, mode):
    seen = compare(name, 3e-5, clipping_mode=mode, bad=(1, 3))
    assert seen.non_finite == 2
    assert seen.clipped_fraction == 3 / SAMPLES


@pytest.mark.parametrize(
    "name", ["sequence", "rnn", pytest.param("gpt2", marks=LONG), "lora"]
)
def test_products_of_bfloat16_are_made_of_bfloat16(name, monkeypatch):
    made = []
    own = joined_calls.DeviceCalls._computed

    def make(calls):
        made.extend(found := own(calls))
        return found

    monkeypatch.setattr(joined_calls.DeviceCalls, "_computed", make)
    seen = compare(name, 2e-2, clipping_mode="instantiate", autocast=True)
    assert torch.bfloat16 in {each.rows.dtype for each in made}
    assert seen.norms.dtype is torch.float32


@LONG
def test_a_sample_adds_no_more_than_the_bound_in_bfloat16():
    net, x, y, loss = case("gpt2")
    with taken_for_an_accelerator():
        for i in range(SAMPLES):
            own = copy.deepcopy(net).to(DEVICE)
            options = {"clipping_mode": "instantiate", "batch_size": 1}
            sample = x[i : i + 1].to(DEVICE)
            _, optimizer = checked(own, sample, max_grad_norm=0.01, **options)
            with torch.autocast(DEVICE, torch.bfloat16):
                outputs = own(sample)
            loss(outputs.float(), y[i : i + 1].to(DEVICE)).backward()
            optimizer.step()
            length = flat(p.grad.cpu() for p in own.parameters()).double().norm()
            assert 0.0099 < length <= 0.01 * (1 + 2.0**-20)


@LONG
def test_pieces_of_a_batch_are_one_sum(monkeypatch):
    whole, _ = step_of("gpt2", "cpu", clipping_mode="instantiate")
    with taken_for_an_accelerator() as backend:
        monkeypatch.setattr(backend, "chunk_bytes", lambda device: 2 * 4 * 4_000)
        found, _ = step_of("gpt2", DEVICE, clipping_mode="instantiate")
    torch.testing.assert_close(found, whole, rtol=1e-4, atol=1e-7)


#: Operations that a device must have finished before Python goes on.
READS = {
    *("_local_scalar_dense", "nonzero", "equal", "is_nonzero", "masked_select"),
    *("_unique2", "unique_dim", "unique_consecutive", "bincount", "nonzero_static"),
}


class Reads(TorchDispatchMode):
    """Notes the operations that read a value."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        if operation.overloadpacket.__name__ in READS:
            self.seen.append(str(operation))
        return operation(*args, **(kwargs or {}))


def read_in_steps(name, steps=2, **options):
    """Return what steps with noise read of a device, after a first one."""
    net, x, y, loss = case(name)
    net, x, y = net.to(DEVICE), x.to(DEVICE), y.to(DEVICE)
    trained = [p for p in net.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-3, fused=True)
    attached(net, optimizer, noise_multiplier=1.0, **options)
    reads = Reads()
    for number in range(1 + steps):
        if number == 1:
            reads.__enter__()
        loss(net(x), y).backward()
        optimizer.step()
        optimizer.zero_grad()
    reads.__exit__(None, None, None)
    return reads.seen


@pytest.mark.parametrize("kernels", [True, False])
@pytest.mark.parametrize(
    "name",
    ["tokens", *[pytest.param(name, marks=LONG) for name in ("mlp", "norms", "lora")]],
)
def test_a_step_reads_nothing_of_the_device(name, kernels):
    with taken_for_an_accelerator(kernels=kernels):
        assert read_in_steps(name) == []


@pytest.mark.skipif(DEVICE != "cpu", reason="the processor's own steps")
def test_what_a_step_of_the_processor_reads_is_seen():
    seen = read_in_steps("tokens", steps=1)
    assert any("_unique2" in read for read in seen)
    assert any("_local_scalar_dense" in read for read in seen)


@LONG
def test_without_kernels_the_step_is_the_same():
    with taken_for_an_accelerator(kernels=False):
        found, _ = step_of("gpt2", DEVICE, clipping_mode="instantiate")
    exact, _ = step_of("gpt2", "cpu", clipping_mode="instantiate")
    torch.testing.assert_close(found, exact, rtol=1e-4, atol=1e-7)


def mean_over_targets(targets):
    """Return an engine after a step whose loss ignores the targets of -100."""
    net, x, _, _ = case("sequence")
    net = nn.Sequential(net[0], net[1], nn.Linear(6, CLASSES)).to(DEVICE)
    engine, optimizer = attached(net, noise_multiplier=1.0)

    def step():
        outputs = net(x.to(DEVICE)).transpose(1, 2)
        F.cross_entropy(outputs, targets.to(DEVICE)).backward()
        optimizer.step()
        optimizer.zero_grad()

    step()
    return engine, step


def test_a_mean_over_the_batchs_targets_is_refused_a_step_later():
    targets = torch.randint(CLASSES, (SAMPLES, 3))
    targets[0, 1] = -100
    with taken_for_an_accelerator():
        _, step = mean_over_targets(targets)
        with pytest.raises(MixedLossError, match="14 for 15 targets"):
            step()


def test_it_is_refused_before_epsilon_is_told():
    targets = torch.randint(CLASSES, (SAMPLES, 3))
    targets[0, 1] = -100
    with taken_for_an_accelerator():
        engine, _ = mean_over_targets(targets)
        for _ in range(2):
            with pytest.raises(Exception, match="total weight of the batch"):
                engine.get_epsilon(assume_poisson=True)


@pytest.mark.parametrize("ignored", [[], [1]])
def test_a_mean_of_equally_many_targets_a_sample_is_taken(ignored):
    targets = torch.randint(CLASSES, (SAMPLES, 3))
    targets[:, ignored] = -100
    with taken_for_an_accelerator():
        engine, _ = mean_over_targets(targets)
        assert "checked by its graph" in engine.receipt()["loss"]


class OwnLoss(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(4, CLASSES)

    def forward(self, x, labels):
        return F.cross_entropy(self.head(x).transpose(1, 2), labels)


def test_a_loss_inside_the_module_is_read_a_step_later():
    labels = torch.randint(CLASSES, (SAMPLES, 3)).to(DEVICE)
    x = torch.randn(SAMPLES, 3, 4).to(DEVICE)
    with taken_for_an_accelerator():
        net = OwnLoss().to(DEVICE)
        engine, optimizer = attached(net, noise_multiplier=1.0)

        def step():
            net(x, labels).backward()
            optimizer.step()
            optimizer.zero_grad()

        step()
        assert engine.get_epsilon(assume_poisson=True) > 0
        labels[0, 1] = -100
        step()
        with pytest.raises(MixedLossError, match="14 for 15 targets"):
            step()


def test_a_gradient_given_to_backward_is_noticed():
    net, x, y, loss = case("mlp")
    with taken_for_an_accelerator():
        net = net.to(DEVICE)
        engine, optimizer = attached(net)
        value = loss(net(x.to(DEVICE)), y.to(DEVICE))
        value.backward(gradient=torch.tensor(2.0, device=DEVICE))
        optimizer.step()
        assert "backward was called with a gradient" in engine.receipt()["loss"]


def test_gradients_are_freed_when_the_step_is_made():
    net, x, y, loss = case("sequence")
    with taken_for_an_accelerator():
        net = net.to(DEVICE)
        _, optimizer = attached(net, clipping_mode="instantiate")
        calls = []
        own = joined_calls.DeviceCalls.__init__

        def watched(self, *parts):
            own(self, *parts)
            calls.append(weakref.ref(self))

        joined_calls.DeviceCalls.__init__ = watched
        try:
            loss(net(x.to(DEVICE)), y.to(DEVICE)).backward()
        finally:
            joined_calls.DeviceCalls.__init__ = own
        optimizer.step()
        assert calls
        assert all(call() is None for call in calls)
