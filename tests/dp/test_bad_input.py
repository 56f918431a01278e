"""Wrong inputs are refused by the layer's name; the module is as it was afterwards."""

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_sequence

from dpsgd_explorer.dp.engines.hooks import HooksEngine
from dpsgd_explorer.errors import ConfigError, PrivacyError, UnsupportedModuleError
from tests.dp.nets import attached


class Net(nn.Module):
    """Hands a fixed wrong input to a layer after a good one."""

    def __init__(self, layer, make):
        super().__init__()
        self.first, self.layer, self.make = nn.Linear(2, 2), layer, make

    def forward(self, x):
        self.first(x)
        return self.layer(*self.make())


def floats(*shape):
    return lambda: (torch.randn(*shape),)


def ids(*values):
    return lambda: (torch.tensor(values),)


def packed(size, width):
    return lambda: (pack_sequence([torch.randn(2, width) for _ in range(size)]),)


def same(*shape):
    return lambda: (torch.randn(*shape),) * 3


BAD = {
    "linear": (nn.Linear(2, 2), floats(2), "takes a batch"),
    "rows": (nn.Linear(2, 2), floats(7, 2), "each of the 3 samples"),
    "conv1d": (nn.Conv1d(3, 2, 1), floats(3, 4), "takes a batch of 3 dimensions"),
    "conv2d": (nn.Conv2d(3, 2, 1), floats(3, 4, 4), "takes a batch of 4 dimensions"),
    "conv3d": (nn.Conv3d(3, 2, 1), floats(3, 4, 4, 4), "batch of 5 dimensions"),
    "transposed": (
        nn.ConvTranspose2d(3, 2, 1),
        floats(3, 4, 4),
        "takes a batch of 4 dimensions",
    ),
    "instance norm": (
        nn.InstanceNorm1d(3, affine=True),
        floats(3, 4),
        "takes a batch of 3 dimensions",
    ),
    "layer norm": (nn.LayerNorm(2), floats(2), "takes a batch"),
    "ids": (nn.Embedding(4, 2), ids(0, 1, 4), "from 0 to 3, got 0 to 4"),
    "negative ids": (nn.Embedding(4, 2), ids(0, -1, 3), "from 0 to 3, got -1 to 3"),
    "bag": (
        nn.EmbeddingBag(4, 2),
        lambda: ids(0, 1, 4) and ids([0], [1], [4])(),
        "0 to 4",
    ),
    "one sequence": (nn.LSTM(2, 2), floats(3, 2), "takes a batch of 3 dimensions"),
    "features": (nn.GRU(2, 2), floats(4, 3, 5), "takes 2 values per time step, got 5"),
    "samples": (nn.RNN(2, 2), floats(3, 4, 2), "with batch_first=False"),
    "packed": (nn.LSTM(2, 2), packed(3, 5), "takes 2 values per time step, got 5"),
    "packed samples": (nn.LSTM(2, 2), packed(4, 2), "each of the 3 samples"),
    "state": (
        nn.LSTM(2, 2),
        lambda: (torch.randn(4, 3, 2), (torch.zeros(2, 3, 2), torch.zeros(1, 3, 2))),
        "takes h_0 of shape",
    ),
    "attention": (nn.MultiheadAttention(2, 1), same(3, 2), "batch of 3 dimensions"),
    "attention rows": (
        nn.MultiheadAttention(2, 1),
        same(3, 4, 2),
        "with batch_first=False",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_a_wrong_input_is_refused_by_the_layers_name(name):
    layer, make, reason = BAD[name]
    net = Net(layer, make)
    gradient_engine = HooksEngine(net, clipping_mode="MixOpt", loss_reduction="sum")
    gradient_engine.start()
    with pytest.raises(UnsupportedModuleError) as caught:
        net(torch.randn(3, 2))
    assert str(caught.value).startswith(f"layer ({type(layer).__name__}) ")
    assert reason in str(caught.value)
    assert all(p.requires_grad for p in net.parameters())
    gradient_engine.stop()
    assert not any(each._forward_hooks for each in net.modules())
    assert not any("forward" in vars(each) for each in net.modules())


def engine_with_loss(loss_fn, **options):
    example = torch.randn(5, 4), torch.randint(0, 3, (5,))
    attached(nn.Linear(4, 3), example_inputs=example, loss_fn=loss_fn, **options)


def test_a_loss_for_each_sample_is_refused():
    with pytest.raises(UnsupportedModuleError, match=r"one number.*got shape \[3\]"):
        engine_with_loss(nn.CrossEntropyLoss(reduction="none"))


@pytest.mark.parametrize("engine", ["hooks", "microbatch"])
def test_a_mode_for_a_layer_that_there_is_not_is_refused(engine):
    with pytest.raises(ConfigError, match="'body'") as caught:
        engine_with_loss(
            nn.CrossEntropyLoss(), clipping_mode={"body": "ghost"}, engine=engine
        )
    assert caught.value.field == "clipping_mode"


@pytest.mark.parametrize("by_name", [False, True])
def test_a_model_is_called_with_rows_and_not_with_a_packed_sequence(by_name):
    net = nn.LSTM(3, 2)
    _, optimizer = attached(net)
    given = pack_sequence([torch.randn(5, 3), torch.randn(4, 3)])
    with pytest.raises(PrivacyError, match=r"pack them inside its forward"):
        net(input=given) if by_name else net(given)
    assert all(p.requires_grad for p in net.parameters())
    optimizer.zero_grad()
