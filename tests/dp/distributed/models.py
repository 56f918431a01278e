"""The models that the ranks train."""

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from tests.dp.nets import CLASSES, BranchNet, TokenNet


class TiedNet(nn.Module):
    """A weight that two layers share, and a bias alone."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.second = nn.Linear(4, 4)
        self.second.weight = self.first.weight
        self.head = nn.Linear(4, CLASSES)

    def forward(self, x):
        return self.head(torch.tanh(self.second(torch.tanh(self.first(x)))))


class IdsNet(TokenNet):
    """An embedding, whose ids are the inputs in seven bins, and a layer norm."""

    def forward(self, x):
        return super().forward(torch.bucketize(x, torch.linspace(-2, 2, 6)))


class CheckpointedNet(nn.Module):
    """Blocks, of which one runs again in backward."""

    def __init__(self):
        super().__init__()
        self.first = nn.Sequential(nn.Linear(4, 6), nn.Tanh())
        self.again = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 6))
        self.head = nn.Linear(6, CLASSES)

    def forward(self, x):
        x = self.first(x)
        return self.head(x + checkpoint(self.again, x, use_reentrant=False))


class ConvNet(nn.Sequential):
    """Convolutions and a group norm."""

    def __init__(self):
        super().__init__(
            nn.Unflatten(1, (1, 4)),
            nn.Conv1d(1, 4, 3, padding=1),
            nn.GroupNorm(2, 4),
            nn.PReLU(),
            nn.Flatten(),
            nn.Linear(16, CLASSES),
        )


class BiasNet(nn.Sequential):
    """Biases alone are trained."""

    def __init__(self):
        super().__init__(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, CLASSES))
        for layer in (self[0], self[2]):
            layer.weight.requires_grad_(False)


class TouchedNet(nn.Module):
    """Uses the last row of a weight outside its layer: the row of the last rank."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(4, CLASSES)

    def forward(self, x):
        return self.head(x) + self.head.weight[-1].sum()


#: Layers that are sharded by themselves; the children of others.
SHARDED_ALONE = {
    TiedNet: lambda net: [net.head],
    nn.Linear: lambda net: [],
    TouchedNet: lambda net: [],
}
NETS = {
    "one": lambda: nn.Linear(1, 1),
    "linear": lambda: nn.Linear(4, CLASSES),
    "mlp": lambda: nn.Sequential(nn.Linear(4, 7), nn.Tanh(), nn.Linear(7, CLASSES)),
    "tied": TiedNet,
    "bias": BiasNet,
    "ids": IdsNet,
    "branches": BranchNet,
    "checkpointed": CheckpointedNet,
    "conv": ConvNet,
    "touched": TouchedNet,
    "LSTM": lambda: nn.LSTM(4, 3),
    "attention": lambda: nn.MultiheadAttention(4, 2),
    "bag": lambda: nn.EmbeddingBag(4, 3, mode="max"),
}
