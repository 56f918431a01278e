"""Small networks, one of each sort, and one noiseless step of an engine on them."""

import copy
import weakref
from contextlib import nullcontext

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from dpsgd_explorer.dp import PrivacyEngine

#: Allows epsilon to be asked for in the middle of a plan.
UNFINISHED = pytest.mark.filterwarnings("ignore:the plan is unfinished")
#: Allows a loss that the engine cannot read.
UNREAD = pytest.mark.filterwarnings("ignore:the loss must be a mean or sum")
SAMPLES = 5
CLASSES = 3


class TokenNet(nn.Module):
    """Embedding, layer norm and a linear layer shared by the positions."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(7, 6, padding_idx=0)
        self.norm = nn.LayerNorm(6)
        self.mix = nn.Linear(6, 5)
        self.head = nn.Linear(5, CLASSES)

    def forward(self, ids):
        hidden = torch.tanh(self.mix(self.norm(self.embedding(ids))))
        return self.head(hidden.sum(1))


class BranchNet(nn.Module):
    """A skip connection, a frozen layer, one that is not called, and one in vain."""

    def __init__(self):
        super().__init__()
        self.frozen = nn.Linear(4, 6).requires_grad_(False)
        self.left = nn.Linear(6, 6)
        self.right = nn.Linear(6, 6, bias=False)
        self.unused = nn.Linear(6, 6)
        self.ignored = nn.Linear(6, 2)
        self.head = nn.Linear(6, CLASSES)

    def forward(self, x):
        x = self.frozen(x)
        self.ignored(x)
        return self.head(F.relu(self.left(x)) + self.right(x))


def mlp():
    return nn.Sequential(nn.Linear(4, 6), nn.ReLU(inplace=True), nn.Linear(6, CLASSES))


def sequence_mlp():
    return nn.Sequential(
        nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 2), nn.Flatten(), nn.Linear(6, CLASSES)
    )


def conv_net():
    return nn.Sequential(
        nn.Conv2d(2, 4, 3, padding=1),
        nn.GroupNorm(2, 4),
        nn.ReLU(inplace=True),
        nn.Conv2d(4, 6, 2, stride=2, groups=2, padding_mode="circular", padding=1),
        nn.Tanh(),
        nn.Flatten(),
        nn.Linear(96, CLASSES),
    )


def bias_only():
    net = mlp()
    net[0].weight.requires_grad_(False)
    net[2].weight.requires_grad_(False)
    return net


NETS = {
    "mlp": (mlp, lambda n: torch.randn(n, 4)),
    "sequence": (sequence_mlp, lambda n: torch.randn(n, 3, 4)),
    "convolutions": (conv_net, lambda n: torch.randn(n, 2, 6, 6)),
    "tokens": (TokenNet, lambda n: torch.randint(0, 7, (n, 4))),
    "branches": (BranchNet, lambda n: torch.randn(n, 4)),
    "bias only": (bias_only, lambda n: torch.randn(n, 4)),
}


def case(name, samples=SAMPLES):
    """Return (net, inputs, targets) in float64, the same each time."""
    torch.manual_seed(0)
    make, inputs = NETS[name]
    x = inputs(samples)
    x = x.double() if x.is_floating_point() else x
    return make().double(), x, torch.randint(0, CLASSES, (samples,))


#: Options of a run on the 40 records of ``data``, with noise.
POISSON = {
    "sampling": "poisson",
    "sample_size": 40,
    "batch_size": 8,
    "noise_multiplier": 1.0,
}


def attached(net, optimizer=None, *, learning_rate=0.1, **options):
    """Return (engine, optimizer), by default without noise and for any batches."""
    options = {
        "batch_size": 10,
        "sample_size": 1000,
        "steps": 100,
        "noise_multiplier": 0.0,
        "sampling": "unchecked",
        "noise": "seeded",
        "seed": 1,
        **options,
    }
    engine = PrivacyEngine(net, **options)
    if optimizer is None:
        trained = [p for p in net.parameters() if p.requires_grad]
        optimizer = torch.optim.SGD(trained, lr=learning_rate)
    engine.attach(optimizer)
    return engine, optimizer


def clipped_sum(net, x, y, *, parts=1, reduction="mean", **options):
    """Return {name: noiseless clipped sum} of one logical batch in so many parts."""
    net = copy.deepcopy(net)
    engine, optimizer = attached(net, loss_reduction=reduction, **options)
    pieces = zip(x.tensor_split(parts), y.tensor_split(parts), strict=True)
    for i, (own_x, own_y) in enumerate(pieces, start=1):
        with engine.accumulating() if i < parts else nullcontext():
            F.cross_entropy(net(own_x), own_y, reduction=reduction).backward()
    optimizer.step()
    divisor = engine.plan.expected_batch_size if reduction == "mean" else 1
    return {
        name: p.grad * divisor for name, p in net.named_parameters() if p.requires_grad
    }


def clipped_sums(net, batches, **options):
    """Yield the noiseless clipped sum of each batch (x, y), by one engine.

    The safety check runs at the first batch, which must be the largest.  It is most of
    what an engine costs.
    """
    net = copy.deepcopy(net)
    engine, optimizer = attached(net, learning_rate=0.0, **options)
    for x, y in batches:
        step(net, optimizer, x, y)
        yield {
            name: p.grad * engine.plan.expected_batch_size
            for name, p in net.named_parameters()
            if p.requires_grad
        }
        optimizer.zero_grad()


def total_norm(gradients):
    return torch.stack([g.norm() for g in gradients.values()]).norm().item()


def backward(net, x, y):
    F.cross_entropy(net(x), y).backward()


def step(net, optimizer, x, y):
    backward(net, x, y)
    optimizer.step()


def data(size=40):
    """Return (inputs, targets) for ``linear``."""
    torch.manual_seed(2)
    return torch.randn(size, 4), torch.randint(0, CLASSES, (size,))


def linear():
    torch.manual_seed(0)
    return nn.Linear(4, CLASSES)


def private_run(net, optimizer, dataset, steps, **options):
    """Return the engine after a whole run."""
    sizes = {"sample_size": len(dataset[0]), "steps": steps}
    engine, _ = attached(net, optimizer, **POISSON | sizes | {"seed": 5} | options)
    train(net, optimizer, engine.poisson_loader(dataset).all_epochs())
    return engine


def train(net, optimizer, batches):
    """Make a step per batch, or per part of one."""
    for x, y in batches:
        step(net, optimizer, x, y)
        optimizer.zero_grad()


def flat(tensors):
    """Return all entries of some tensors, [P]."""
    return torch.cat([tensor.flatten() for tensor in tensors])


def watched(*shape):
    """Return random inputs, and a reference that dies when their memory is freed.

    torch holds the array as long as any tensor uses its memory; a weak reference to a
    tensor says nothing of others on the same memory.
    """
    array = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    return torch.from_numpy(array), weakref.ref(array)


def moved_by_a_step(model, loss_of, **options):
    """Return by how much a step of rate 1 moves what is trained, and its statistics.

    Args:
        model: The model.
        loss_of: Returns the loss; it is called once, with the engine attached.
        options: Of the engine; ``batch_size`` is needed.
    """
    trained = [p for p in model.parameters() if p.requires_grad]
    before = [p.detach().clone() for p in trained]
    options = {"max_grad_norm": 0.7, "clipping_fn": "Abadi"} | options
    engine, optimizer = attached(model, learning_rate=1.0, **options)
    loss_of(model).backward()
    optimizer.step()
    moved = [b - p for b, p in zip(before, trained, strict=True)]
    return moved, engine.diagnostics
