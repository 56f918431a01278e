"""Wrapped, sharded, compiled and copied modules."""

import copy
import io

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.optim.swa_utils import AveragedModel

from dpsgd_explorer.dp.config import CHOICES
from dpsgd_explorer.errors import UnsupportedModuleError
from tests.dp.nets import attached, backward, case, mlp, step, train

ENGINE = pytest.mark.parametrize("engine", CHOICES["engine"])


@pytest.fixture
def process_group():
    """One process alone."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


WRAPPERS = {
    "DataParallel": (nn.DataParallel, "copies .* Attach to model.module"),
    "DistributedDataParallel": (
        nn.parallel.DistributedDataParallel,
        "before they can be clipped .* or train model.module in one process",
    ),
    "FSDP": (fully_shard, "is sharded .* group=dist.group.WORLD"),
}


@ENGINE
@pytest.mark.parametrize("wrapper", WRAPPERS.values(), ids=WRAPPERS)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_modules_of_several_processes_are_refused_with_the_reason(
    wrapper, engine, process_group
):
    wrap, reason = wrapper
    net = wrap(mlp())
    with pytest.raises(UnsupportedModuleError, match=reason):
        attached(net, engine=engine)
    inside = nn.Sequential(wrap(mlp()))
    with pytest.raises(UnsupportedModuleError, match=r"0 \(.*" + reason):
        attached(inside, engine=engine)


def compiled(net):
    return torch.compile(net, backend="eager")


def compiled_in_place(net):
    net.compile(backend="eager")
    return net


COMPILED = pytest.mark.parametrize("compiling", [compiled, compiled_in_place])


@ENGINE
@COMPILED
def test_a_module_compiled_before_is_refused(compiling, engine):
    with pytest.raises(UnsupportedModuleError, match="compile afterwards"):
        attached(compiling(mlp()), engine=engine)
    with pytest.raises(UnsupportedModuleError, match=r"0 \(.*compile afterwards"):
        attached(nn.Sequential(compiling(mlp())), engine=engine)


@pytest.mark.parametrize(
    ("engine", "compiling"),
    [("hooks", compiled), ("extending", compiled), ("hooks", compiled_in_place)],
)
@pytest.mark.filterwarnings("default")  # torch._dynamo's own
def test_a_module_compiled_after_attaching_trains_as_it_did(engine, compiling):
    net, x, y = case("mlp")
    plain = copy.deepcopy(net)
    for model, wrap in ((net, compiling), (plain, lambda model: model)):
        own, optimizer = attached(model, engine=engine)
        run = wrap(model)
        for _ in range(3):
            backward(run, x, y)
            optimizer.step()
            optimizer.zero_grad()
        assert own.steps_done == 3
    torch.testing.assert_close(net.state_dict(), plain.state_dict(), rtol=0, atol=0)
    torch.compiler.reset()


def trained_copies(net):
    """Return (name, copy) of every way in which models are copied."""
    file = io.BytesIO()
    torch.save(net, file)
    file.seek(0)
    yield "deepcopy", copy.deepcopy(net)
    yield "average", AveragedModel(net).module
    yield "file", torch.load(file, weights_only=False)


COPIED = [
    *(("mlp", "secure", engine) for engine in CHOICES["engine"]),
    ("tokens", "seeded", "hooks"),
    ("lstm", "secure", "hooks"),
    ("lstm", "seeded", "extending"),
]


@pytest.mark.parametrize(("name", "noise", "engine"), COPIED)
def test_a_copy_of_an_attached_module_is_a_plain_module(name, noise, engine):
    net, x, y = sequence_case() if name == "lstm" else case(name)
    own, optimizer = attached(net, engine=engine, noise=noise, seed=None)
    train(net, optimizer, [(x, y)])
    expected = net(x).detach()
    for _, copied in trained_copies(net):
        torch.testing.assert_close(copied(x), expected)
        backward(copied, x, y)
        assert all(p.grad is not None for p in copied.parameters())
        copied.zero_grad()
        torch.optim.SGD(copied.parameters(), lr=0.1).step()
        _, second = attached(copied, engine=engine)
        backward(copied, x, y)
        second.step()
    step(net, optimizer, x, y)
    assert own.steps_done == 2


class LastState(nn.Module):
    """A recurrent layer, which is rewritten, and a head."""

    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(4, 5, batch_first=True)
        self.head = nn.Linear(5, 3)

    def forward(self, x):
        return self.head(self.lstm(x)[0][:, -1])


def sequence_case():
    torch.manual_seed(0)
    return LastState().double(), torch.randn(5, 3, 4).double(), torch.arange(5) % 3
