"""Norms of gradients whose factors are too small to be squared in float32."""

import pytest
import torch
from torch import nn

from dpsgd_explorer.dp import PrivacyEngine
from dpsgd_explorer.dp.backends import backend_on, using
from dpsgd_explorer.dp.backends.native.backend import NativeBackend
from dpsgd_explorer.dp.backends.torch import TorchBackend

#: The squares of inputs are finite, those of backprops are 0 in float32.
LARGE, TINY = 4e18, 1.5e-23
#: A sample adds at most this many times the bound; the rest is rounding.
MOST = 1 + 2.0**-20


class Shared(nn.Module):
    """A linear layer that is called twice."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 64)

    def forward(self, x):
        return self.layer(x) + self.layer(x)


#: {name: (module, shape of a sample)}.
CASES = {
    "linear": (lambda: nn.Linear(4, 64), (4,)),
    "positions": (lambda: nn.Linear(4, 64), (40, 4)),
    "many positions": (lambda: nn.Linear(4, 64), (300, 4)),
    "shared": (Shared, (4,)),
    "shared positions": (Shared, (40, 4)),
    "convolution": (lambda: nn.Conv1d(3, 16, 3), (3, 20)),
}


@pytest.fixture(params=[NativeBackend, TorchBackend], autouse=True)
def backend(request):
    with using(request.param()):
        yield


@pytest.mark.parametrize("mode", ["MixOpt", "ghost", "instantiate"])
@pytest.mark.parametrize("function", ["Abadi", "automatic"])
@pytest.mark.parametrize("name", CASES)
def test_a_sample_of_large_inputs_and_tiny_backprops_adds_no_more(name, function, mode):
    make, shape = CASES[name]
    net, bound = make(), 1e-4
    optimizer = torch.optim.SGD(net.parameters(), lr=1.0)
    engine = PrivacyEngine(
        net,
        batch_size=2,
        sample_size=1000,
        steps=10,
        noise_multiplier=0.0,
        max_grad_norm=bound,
        clipping_fn=function,
        clipping_mode=mode,
        sampling="unchecked",
        loss_reduction="sum",
    )
    engine.attach(optimizer)
    x = torch.zeros(2, *shape)
    x[0] = LARGE
    (net(x) * TINY).sum().backward()
    optimizer.step()
    gradients = [p.grad.double().flatten() for p in net.parameters()]
    assert torch.cat(gradients).norm() <= bound * MOST  # the other sample adds nothing


@pytest.mark.parametrize("size", [1, 16, 1000, 5000])
def test_a_length_whose_squares_are_zero_is_not(size):
    rows = torch.full((2, size), TINY)
    rows[1] = 0.0
    [squares] = backend_on("cpu").squared_norms([rows])
    exact = rows.double().square().sum(1)
    assert (squares.double() >= exact).all()
    assert squares.max() < 1e-30
