"""Modules that run alone on every sample, with copies of parameters, are exact."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.parametrizations import weight_norm

from dpsgd_explorer.errors import UnsupportedModuleError
from tests.dp.nets import attached, clipped_sum, step

pytestmark = pytest.mark.filterwarnings(
    # vmap maps some of torch's operations one sample at a time, and says so.
    "ignore:There is a performance drop:UserWarning"
)
WORDS, WIDTH, CLASSES = 7, 4, 3


class ScaledEmbedding(nn.Embedding):
    """An embedding with another forward, as in Gemma 3."""

    def forward(self, ids):
        return super().forward(ids) * self.embedding_dim**0.5


class Tied(nn.Module):
    """Uses the weight of an embedding with a padding row as a matrix too."""

    def __init__(self, dropout=0.0):
        super().__init__()
        self.table = ScaledEmbedding(WORDS, WIDTH, padding_idx=0)
        self.dropout = nn.Dropout(dropout)

    def forward(self, ids):
        words = self.dropout(self.table(ids).tanh()).mean(1)
        return words @ self.table.weight.T[:, :CLASSES]


class Experts(nn.Module):
    """Tokens of all samples in one dimension, each to the expert that it chooses."""

    def __init__(self, capacity):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(2, WIDTH, WIDTH))
        self.capacity = capacity

    def forward(self, tokens, chosen):
        outputs = torch.zeros_like(tokens)
        for expert in chosen.unique():
            (places,) = torch.where(chosen == expert)
            places = places[: self.capacity]
            outputs[places] = F.linear(tokens[places], self.weight[expert]).tanh()
        return outputs


class Mixture(nn.Module):
    def __init__(self, capacity=None):
        super().__init__()
        self.router, self.experts = nn.Linear(WIDTH, 2), Experts(capacity)

    def forward(self, x):  # [B, T, d]
        tokens = x.flatten(0, 1)
        gate, chosen = self.router(tokens).softmax(-1).max(-1)
        mixed = self.experts(tokens, chosen) * gate[:, None]
        return mixed.view(x.shape).sum(1)


class Windows(nn.Module):
    """Attention within windows that are folded into the batch, as in Swin."""

    def __init__(self):
        super().__init__()
        self.attention = WindowAttention()

    def forward(self, x):  # [B, 4, d] as windows of two positions
        windows = self.attention(x.reshape(-1, 2, WIDTH))
        return windows.reshape(len(x), 4, WIDTH).mean(1)


class WindowAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.keys, self.bias = nn.Linear(WIDTH, WIDTH), nn.Embedding(2, 1)

    def forward(self, x):
        place = torch.arange(2)
        bias = self.bias((place[:, None] - place).abs())[None, ..., 0]
        return (x @ self.keys(x).mT + bias).softmax(-1) @ x


class Merging(nn.Module):
    """Replaces a frozen weight for a while, as LoRA on attention does."""

    def __init__(self):
        super().__init__()
        self.base = nn.Linear(WIDTH, WIDTH).requires_grad_(False)
        self.low = nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, x):
        frozen = self.base.weight
        merged = frozen.detach() + self.low.weight
        del self.base.weight
        self.base.weight = merged
        try:
            return self.base(x).tanh()
        finally:
            del self.base.weight
            self.base.register_parameter("weight", frozen)


class Positions(nn.Module):
    """Gives two blocks a bias that all samples share, as T5 does."""

    def __init__(self):
        super().__init__()
        self.first = Block(nn.Embedding(2, 1))
        self.second = Block(None)

    def forward(self, x):
        x, bias = self.first(x, None)
        return self.second(x, bias)[0].mean(1)


class Block(nn.Module):
    def __init__(self, table):
        super().__init__()
        self.table, self.keys = table, nn.Linear(WIDTH, WIDTH)

    def forward(self, x, bias):
        if bias is None:
            places = torch.arange(x.shape[1])
            bias = self.table((places[:, None] > places).long()).permute(2, 0, 1)
        return (x @ self.keys(x).mT + bias).softmax(-1) @ x, bias


class Masked(nn.Module):
    """Gives a block a mask [T, T] that all samples share."""

    def __init__(self):
        super().__init__()
        self.block = MaskedBlock()

    def forward(self, x):
        mask = torch.arange(x.shape[1] ** 2, dtype=x.dtype).sin()
        mask = mask.view(2 * x.shape[1:2])
        return sum(self.block(x, mask) for _ in range(2)).mean(1)


class MaskedBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.keys = nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, x, mask):
        return (x @ (x @ self.keys.weight).mT + mask).softmax(-1) @ x


class ListOfParameters(nn.Module):
    def __init__(self):
        super().__init__()
        self.weights = nn.ParameterList([torch.randn(WIDTH, WIDTH), torch.randn(WIDTH)])

    def forward(self, x):
        return x @ self.weights[0] + self.weights[1]


def vectors(n):
    return torch.randn(n, WIDTH).double()


def sequences(n):
    return torch.randn(n, 4, WIDTH).double()


CASES = {
    "embedding as a matrix": (Tied, lambda n: torch.randint(WORDS, (n, 6))),
    "experts": (Mixture, sequences),
    "windows": (Windows, sequences),
    "merged weight": (Merging, vectors),
    "shared positions": (Positions, sequences),
    "shared mask": (Masked, lambda n: torch.randn(n, 5, WIDTH).double()),
    "list of parameters": (ListOfParameters, vectors),
    "weight norm": (lambda: weight_norm(nn.Linear(WIDTH, WIDTH)), vectors),
}


def net_of(part):
    width = CLASSES if isinstance(part, Tied) else WIDTH
    return nn.Sequential(part, nn.Linear(width, CLASSES)).double()


@pytest.mark.parametrize(
    ("name", "engine"), [*((name, "hooks") for name in CASES), ("windows", "extending")]
)
def test_clipped_sums_are_those_of_single_samples(name, engine):
    torch.manual_seed(0)
    make, inputs = CASES[name]
    net, x, y = net_of(make()), inputs(5), torch.arange(5) % CLASSES
    options = {"max_grad_norm": 0.3, "clipping_fn": "Abadi"}
    expected = clipped_sum(net, x, y, engine="microbatch", **options)
    found = clipped_sum(net, x, y, engine=engine, **options)
    assert found.keys() == expected.keys()
    for parameter, gradient in expected.items():
        torch.testing.assert_close(found[parameter], gradient, msg=parameter)


def test_longer_sequences_than_those_of_the_check_are_exact_too():
    torch.manual_seed(0)
    net, x, y = net_of(Positions()), sequences(5), torch.arange(5) % CLASSES
    options = {"max_grad_norm": 0.3, "clipping_fn": "Abadi"}
    engine, optimizer = attached(net, **options)
    step(net, optimizer, x, y)
    optimizer.zero_grad()
    longer = torch.randn(5, 9, WIDTH).double()
    expected = clipped_sum(net, longer, y, engine="microbatch", **options)
    F.cross_entropy(net(longer), y).backward()
    optimizer.step()
    for name, p in net.named_parameters():
        found = p.grad * engine.plan.expected_batch_size
        torch.testing.assert_close(found, expected[name], msg=name)


def test_equal_blocks_need_no_more_passes_than_one():
    passes = []
    for blocks in (1, 4):
        net = nn.Sequential(*(Merging() for _ in range(blocks)), nn.Linear(WIDTH, 3))
        net[0].register_forward_pre_hook(lambda *_, n=blocks: passes.append(n))
        attached(net)
        net(torch.randn(5, WIDTH)).sum().backward()
    assert passes.count(1) == passes.count(4)


@pytest.mark.parametrize("make", [Mixture, Windows])
def test_an_empty_batch_adds_nothing(make):
    net = nn.Sequential(make())
    _, optimizer = attached(net, batch_size=5)
    step(net, optimizer, torch.randn(5, 4, WIDTH), torch.arange(5) % CLASSES)
    optimizer.zero_grad()
    net(torch.randn(0, 4, WIDTH)).sum().backward()
    optimizer.step()
    assert all(not p.grad.any() for p in net.parameters())


@pytest.mark.parametrize("capacity", [1, 40])
def test_experts_that_drop_tokens_of_other_samples_are_refused(capacity):
    torch.manual_seed(0)
    net = nn.Sequential(Mixture(capacity))
    attached(net, batch_size=32)
    with pytest.raises(UnsupportedModuleError):
        net(torch.randn(32, 4, WIDTH))


class Gate(nn.Module):
    """Decides for the whole batch by a sum over all samples."""

    def __init__(self):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x):
        return x * self.gain if x.sum() > 0 else 2 * x * self.gain


class Centred(nn.Module):
    """Subtracts the mean of the batch in training mode only."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        x = x @ self.layer.weight
        return x - x.mean(0) if self.training else x


@pytest.mark.parametrize("make", [Gate, Centred])
def test_a_module_that_is_another_function_on_single_samples_is_refused(make):
    for seed in range(4):
        torch.manual_seed(seed)
        net = nn.Sequential(nn.Linear(WIDTH, WIDTH), make())
        attached(net)
        with pytest.raises(UnsupportedModuleError):
            net(torch.randn(5, WIDTH))
