"""A random number drawn once for a whole batch hides no mixing from the check."""

import copy
import random

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

from dpsgd_explorer.errors import UnsupportedModuleError
from tests.dp.nets import attached

WIDTH, CLASSES = 6, 3
RARE = 1e-4
PROBABILITY = 0.05
EVERY = pytest.mark.long("every combination")
#: Rejected mixing is named with its module and its condition.
REFUSED = r"1 \(\w+\) mixes the samples .* once for the whole batch"


def torch_uniform(shape=(1,), **options):
    return torch.rand(shape, **options).item()


class OwnGenerators(nn.Module):
    """Has generators of its own, as a module that wants to be repeatable has."""

    def __init__(self):
        super().__init__()
        self.torch, self.python = torch.Generator(), random.Random(1)
        self.numpy, self.legacy = np.random.default_rng(1), np.random.RandomState(1)


#: {draw: a number in [0, 1) for the whole batch}, given the module.
UNIFORM = {
    "torch.rand(1)": lambda m: torch_uniform(),
    "torch.rand(())": lambda m: torch_uniform(()),
    "torch.rand(1, device)": lambda m: torch_uniform(device="cpu"),
    "torch.rand(1, float64)": lambda m: torch_uniform(dtype=torch.float64),
    "rand_like": lambda m: torch.rand_like(torch.zeros(1)).item(),
    "uniform_": lambda m: torch.empty(1).uniform_().item(),
    "uniform_(2, 3)": lambda m: torch.empty(()).uniform_(2, 3).item() - 2,
    "Uniform": lambda m: torch.distributions.Uniform(0, 1).sample().item(),
    "one of four": lambda m: torch.rand(4)[2].item(),
    "torch.Generator": lambda m: torch.rand(1, generator=m.torch).item(),
    "random": lambda m: random.random(),
    "random.uniform": lambda m: random.uniform(0, 1),
    "random.Random": lambda m: m.python.random(),
    "numpy.rand": lambda m: np.random.rand(),
    "numpy.random": lambda m: np.random.random(1)[0],
    "numpy.uniform": lambda m: np.random.uniform(),
    "default_rng": lambda m: m.numpy.random(),
    "RandomState": lambda m: m.legacy.rand(),
}


def whole_numbers(p):
    return round(1 / p)


#: {draw: whether a number of probability p came}, given the module and p.
EVENTS = {
    "torch.bernoulli": lambda m, p: bool(torch.bernoulli(torch.tensor(p))),
    "bernoulli_": lambda m, p: bool(torch.empty(1).bernoulli_(p)),
    "Bernoulli": lambda m, p: bool(torch.distributions.Bernoulli(p).sample()),
    "Binomial": lambda m, p: bool(
        torch.distributions.Binomial(1, torch.tensor(p)).sample()
    ),
    "Categorical": lambda m, p: (
        torch.distributions.Categorical(torch.tensor([0.6 * (1 - p), p, 0.4 * (1 - p)]))
        .sample()
        .item()
        == 1
    ),
    "multinomial": lambda m, p: bool(torch.multinomial(torch.tensor([1 - p, p]), 1)),
    "randint, first": lambda m, p: torch.randint(whole_numbers(p), (1,)).item() == 0,
    "randint, last": lambda m, p: (
        torch.randint(2, 2 + whole_numbers(p), ()).item() == 1 + whole_numbers(p)
    ),
    "random_": lambda m, p: (
        torch.empty(1).random_(whole_numbers(p)).item() == whole_numbers(p) - 1
    ),
    "exponential_": lambda m, p: (
        torch.empty(1).exponential_().item() > -np.log(p) - 1e-9
    ),
    "randn": lambda m, p: (
        torch.randn(1).item() > torch.special.ndtri(torch.tensor(1 - p))
    ),
    "Normal": lambda m, p: (
        torch.distributions.Normal(0.0, 1.0).sample()
        < torch.special.ndtri(torch.tensor(p))
    ),
    "random.randint, first": lambda m, p: random.randint(1, whole_numbers(p)) == 1,
    "random.randint, last": lambda m, p: (
        random.randint(1, whole_numbers(p)) == whole_numbers(p)
    ),
    "random.choice": lambda m, p: random.choice(range(whole_numbers(p))) == 0,
    "random.choices": lambda m, p: random.choices([False, True], [1 - p, p])[0],
    "numpy.binomial": lambda m, p: bool(np.random.binomial(1, p)),
    "numpy.choice": lambda m, p: np.random.choice([False, True], p=[1 - p, p]),
    "numpy.randint": lambda m, p: np.random.randint(whole_numbers(p)) == 0,
    "integers, first": lambda m, p: m.numpy.integers(whole_numbers(p)) == 0,
    "integers, last": lambda m, p: (
        m.numpy.integers(whole_numbers(p)) == whole_numbers(p) - 1
    ),
}
COINS = (
    {f"{name} < p": lambda m, p, d=draw: d(m) < p for name, draw in UNIFORM.items()}
    | {
        f"{name} > 1 - p": lambda m, p, d=draw: d(m) > 1 - p
        for name, draw in UNIFORM.items()
    }
    | EVENTS
)


def swap(module, x):
    """Manifold mixup: each sample gets a part of another."""
    return 0.7 * x + 0.3 * x[torch.randperm(len(x))]


class Coin(OwnGenerators):
    """Changes the batch where a coin comes up."""

    def __init__(self, coin, change=swap):
        super().__init__()
        self.coin, self.change = coin, change

    def forward(self, x):
        if self.training and self.coin(self):
            return self.change(self, x)
        return x


def net_with(inside):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, WIDTH), inside, nn.Linear(WIDTH, CLASSES))


def first_pass(inside, size=5, **options):
    net = net_with(inside)
    engine, _ = attached(net, **options)
    try:
        net(torch.randn(size, 4))
    finally:
        engine.detach()


@pytest.mark.parametrize("name", COINS)
def test_mixing_behind_a_coin_is_refused(name):
    with pytest.raises(UnsupportedModuleError, match="mixes the samples"):
        first_pass(Coin(lambda m: COINS[name](m, PROBABILITY)))


@pytest.mark.parametrize("name", COINS)
def test_mixing_that_a_coin_seldom_leaves_out_is_refused(name):
    with pytest.raises(UnsupportedModuleError, match="mixes the samples"):
        first_pass(Coin(lambda m: not COINS[name](m, RARE)))


@pytest.mark.parametrize("name", COINS)
def test_a_rare_coin_is_named(name):
    with pytest.raises(UnsupportedModuleError, match=REFUSED):
        first_pass(Coin(lambda m: COINS[name](m, RARE)))


#: {a number below ``n`` that is drawn once for the batch}
CHOICES = {
    "torch.randint": lambda m, n: int(torch.randint(n, (1,))),
    "torch.randint(())": lambda m, n: torch.randint(0, n, ()).item(),
    "torch.rand": lambda m, n: int(n * torch.rand(1)),
    "uniform_": lambda m, n: int(torch.empty(1).uniform_(0, n)),
    "torch.randn": lambda m, n: int(n * torch.special.ndtr(torch.randn(1))),
    "multinomial": lambda m, n: int(torch.multinomial(torch.ones(n), 1)),
    "random.choice": lambda m, n: random.choice(range(n)),
    "random.randrange": lambda m, n: random.randrange(n),
    "random.random": lambda m, n: int(n * random.random()),
    "numpy.randint": lambda m, n: int(np.random.randint(n)),
    "numpy.choice": lambda m, n: int(np.random.choice(np.arange(n))),
    "numpy.rand": lambda m, n: int(n * np.random.rand()),
}


@pytest.mark.parametrize(
    ("count", "branch"),
    [
        (3, 1),
        (8, 4),
        *(pytest.param(n, k, marks=EVERY) for n, k in ((5, 1), (5, 3), (8, 1), (8, 6))),
    ],
)
@pytest.mark.parametrize("name", CHOICES)
def test_one_mixing_branch_of_several_is_refused(name, count, branch):
    """Also if it is neither the first nor the last of them."""
    with pytest.raises(UnsupportedModuleError, match="mixes the samples"):
        first_pass(Coin(lambda m: CHOICES[name](m, count) == branch))


@pytest.mark.parametrize("name", CHOICES)
def test_a_choice_between_branches_that_mix_nothing_passes(name):
    first_pass(Coin(lambda m: True, lambda m, x: x * (1 + CHOICES[name](m, 5))))


@pytest.mark.parametrize("engine", ["hooks", "extending"])
@pytest.mark.parametrize("name", ["torch.rand(1) < p", "random < p", "default_rng < p"])
def test_mixing_behind_a_coin_is_refused_when_attached(name, engine):
    example = torch.randn(5, 4), torch.randint(0, CLASSES, (5,))
    net = net_with(Coin(lambda m: COINS[name](m, RARE)))
    with pytest.raises(UnsupportedModuleError, match=REFUSED):
        attached(net, example_inputs=example, loss_fn=F.cross_entropy, engine=engine)


@pytest.mark.parametrize("name", ["torch.rand(1) > 1 - p", "numpy.rand < p"])
def test_mixing_in_large_batches_alone_is_refused(name):
    coin = Coin(
        lambda m: COINS[name](m, RARE),
        lambda m, x: swap(m, x) if len(x) > 3 else x,
    )
    with pytest.raises(UnsupportedModuleError, match=REFUSED):
        first_pass(coin)


def test_a_loss_behind_a_coin_is_refused():
    def loss(outputs, targets):
        if torch.rand(1).item() < RARE:
            outputs = outputs - outputs.mean(0)
        return F.cross_entropy(outputs, targets)

    example = torch.randn(5, 4), torch.randint(0, CLASSES, (5,))
    with pytest.raises(UnsupportedModuleError, match="the loss mixes"):
        attached(net_with(nn.Tanh()), example_inputs=example, loss_fn=loss)


def blend(weight):
    return lambda m, x: (1 - weight()) * x + weight() * x.roll(1, 0)


def mixup(m, x):
    share = torch.distributions.Beta(0.2, 0.2).sample()
    return share * x + (1 - share) * x[torch.randperm(len(x))]


#: {a share for the whole batch, which is nearly always 1, or 0}
SHARES = {
    "Beta": lambda: torch.distributions.Beta(0.1, 0.1).sample(),
    "Dirichlet": lambda: torch.distributions.Dirichlet(torch.full((3,), 0.05)).sample()[
        0
    ],
    "Gamma": lambda: torch.distributions.Gamma(0.1, 10.0).sample().clamp(max=1),
    "random": lambda: random.betavariate(0.1, 0.1),
    "numpy": lambda: np.random.beta(0.1, 0.1),
}


@pytest.mark.parametrize("share", SHARES.values(), ids=SHARES)
def test_a_share_that_hardly_ever_mixes_is_refused(share):
    def mostly_own(m, x):
        most = abs(0.5 - share()) + 0.5
        return most * x + (1 - most) * x[torch.randperm(len(x))]

    with pytest.raises(UnsupportedModuleError, match=r"1 \(Coin\) mixes"):
        first_pass(Coin(lambda m: True, mostly_own))


#: {permutation for the whole batch: how long it is, and the place that is looked at}.
PERMUTED = {"two": (2, 0), "four": (4, 0), "four, last": (4, 3), "eight": (8, 0)}


@pytest.mark.parametrize("change", [swap, blend(lambda: 0.3)], ids=["swap", "blend"])
@pytest.mark.parametrize(("length", "place"), PERMUTED.values(), ids=PERMUTED)
def test_mixing_behind_an_element_of_a_permutation_is_refused(length, place, change):
    for value in range(length):
        coin = Coin(lambda m, v=value: torch.randperm(length)[place] == v, change)
        with pytest.raises(UnsupportedModuleError, match=r"1 \(Coin\) mixes"):
            first_pass(coin)


def test_mixing_by_a_permutation_behind_a_later_one_is_refused():
    def swapped(m, x):
        order = torch.randperm(len(x))
        return x[order] if torch.randperm(2)[0] == 0 else x

    with pytest.raises(UnsupportedModuleError, match=r"1 \(Coin\) mixes"):
        first_pass(Coin(lambda m: True, swapped))


TWO = {
    "low, low": lambda m: torch.rand(1) < RARE and torch.rand(1) < RARE,
    "low, high": lambda m: torch.rand(1) < RARE and torch.rand(1) > 1 - RARE,
    "high, low": lambda m: torch.rand(1) > 1 - RARE and torch.rand(1) < RARE,
    "high, high": lambda m: torch.rand(1) > 1 - RARE and torch.rand(1) > 1 - RARE,
    "one vector": lambda m: (lambda r: r[0] < RARE and r[1] > 1 - RARE)(torch.rand(2)),
    "compared": lambda m: torch.rand(1) > torch.rand(1) + 1 - 1e-3,
    "compared, as often": lambda m: torch.rand(1) < torch.rand(1),
    "compared, unlike": lambda m: torch.rand(1) > torch.rand(1),
    "torch and python": lambda m: torch.rand(1) < RARE and random.random() > 1 - RARE,
    "python and numpy": lambda m: random.random() > 0.99 and np.random.rand() < RARE,
    "fourth, first": lambda m: (lambda r: r[3] < RARE and r[0] > 1 - RARE)(
        [torch.rand(1) for _ in range(4)]
    ),
    "eleventh, second": lambda m: (lambda r: r[10] < RARE and r[1] > 1 - RARE)(
        [torch.rand(1) for _ in range(12)]
    ),
    "all of five": lambda m: all(torch.rand(1) < 0.1 for _ in range(5)),
}


@pytest.mark.parametrize("coin", TWO.values(), ids=TWO)
def test_mixing_behind_several_draws_is_refused(coin):
    with pytest.raises(UnsupportedModuleError, match=r"1 \(Coin\) mixes"):
        first_pass(Coin(coin))


CHANGES = {
    "by a random share": mixup,
    "by a share that is large": blend(lambda: torch.rand(1)),
    "by a share of its own": blend(lambda: random.betavariate(0.2, 0.2)),
    "with one neighbour": lambda m, x: torch.cat([x[:-2], x[-2:] + x[-2:].flip(0)]),
    "by a sorted draw": lambda m, x: x + x[torch.rand(len(x)).argsort()],
    "in a checkpoint": lambda m, x: checkpoint(
        lambda h: h - h.mean(0), x, use_reentrant=False
    ),
}


@pytest.mark.parametrize("side", [lambda r: r < RARE, lambda r: r > 1 - RARE])
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_all_ways_of_mixing_behind_a_coin_are_refused(change, side):
    with pytest.raises(UnsupportedModuleError, match=REFUSED):
        first_pass(Coin(lambda m: side(torch.rand(1)), change))


class StatisticOnce(nn.Module):
    """Stores a statistic of the samples, rarely."""

    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(WIDTH))

    def forward(self, x):
        if self.training and torch.rand(1) < RARE:
            self.mean.copy_(x.detach().mean(0))
        return x


def test_a_statistic_behind_a_coin_is_refused():
    with pytest.raises(UnsupportedModuleError, match=r"stores a statistic.*mean"):
        first_pass(StatisticOnce())


def dropped(m, x):
    """A layer drop of the whole batch: nothing is mixed."""
    return 0 * x


def noisy(m, x):
    return x + torch.randn(x.shape[1:]) * torch.rand(1)


def checkpointed(m, x):
    return checkpoint(
        lambda h: h if torch.rand(1) < 0.5 else h.tanh(), x, use_reentrant=False
    )


def counted(m, x):
    while torch.rand(1) < 0.9:
        x = x + 0.01
    while random.random() < 0.9:
        x = x + 0.01
    return x


def per_sample(m, x):
    keep = torch.rand(len(x), 1) < 0.8
    keep &= torch.from_numpy(np.random.rand(len(x), 1) < 0.9)
    return x * keep + torch.distributions.Normal(0.0, 0.1).sample(x.shape)


def permuted_features(m, x):
    return x[:, torch.randperm(x.shape[1])]


def gumbel(m, x):
    gate = F.gumbel_softmax(torch.zeros(2), tau=0.5)
    return x * gate[0] + x.tanh() * gate[1]


HONEST = {
    "layer drop": dropped,
    "noise": noisy,
    "checkpoint": checkpointed,
    "loops": counted,
    "per sample": per_sample,
    "permuted features": permuted_features,
    "gumbel": gumbel,
    "dropout": lambda m, x: F.dropout(F.rrelu(x, training=True), 0.3),
    "own numpy": lambda m, x: x * m.numpy.uniform(0.5, 1.5) + m.python.gauss(0, 1),
    "own torch": lambda m, x: x * torch.rand(1, generator=m.torch),
    "inverse": lambda m, x: x / torch.rand(1),
    "logarithm": lambda m, x: x * torch.rand(1).log() * np.log(random.random()),
}


@pytest.mark.parametrize("change", HONEST.values(), ids=HONEST)
def test_a_coin_that_mixes_nothing_passes(change):
    first_pass(Coin(lambda m: COINS["torch.rand(1) < p"](m, 0.5), change))


@EVERY
@pytest.mark.parametrize("name", ["torch.rand(1) < p", "random < p", "numpy.rand < p"])
@pytest.mark.parametrize("change", HONEST.values(), ids=HONEST)
def test_every_coin_that_mixes_nothing_passes(change, name):
    for p in (0.5, 0.01):
        first_pass(Coin(lambda m, p=p: COINS[name](m, p), change))
        first_pass(Coin(lambda m, p=p: not COINS[name](m, p), change))


class DroppedLayers(nn.Module):
    """Residual layers, each left out by a coin for the whole batch."""

    def __init__(self, count):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(count))

    def forward(self, x):
        for layer in self.layers:
            if not self.training or torch.rand([]) > 0.2:
                x = x + layer(x).tanh()
        return x


@pytest.mark.parametrize(
    ("engine", "count"), [("hooks", 12), ("extending", 4), ("microbatch", 4)]
)
def test_layers_dropped_for_the_whole_batch_pass(engine, count):
    first_pass(DroppedLayers(count), engine=engine)


def lasting_draws(module):
    return (
        torch.get_rng_state().tolist(),
        random.getstate(),
        [
            part.tolist() if hasattr(part, "tolist") else part
            for part in np.random.get_state()
        ],
        module.torch.get_state().tolist(),
        module.python.getstate(),
        copy.deepcopy(module.numpy.bit_generator.state),
        [
            part.tolist() if hasattr(part, "tolist") else part
            for part in module.legacy.get_state()
        ],
    )


def draw_all(m, x):
    for name in UNIFORM:
        UNIFORM[name](m)
    return x


@pytest.mark.parametrize("change", [draw_all, swap])
def test_every_generator_goes_on_as_without_a_check(change):
    """Two forward passes without an engine draw what the same two draw with one."""
    drawn = []
    for private in (False, True):
        torch.manual_seed(3), random.seed(3), np.random.seed(3)
        inside = Coin(lambda m: True, change)
        generator, net = inside.numpy, net_with(inside)
        torch.manual_seed(4)
        before = lasting_draws(inside)
        if private:
            example = torch.zeros(5, 4), torch.zeros(5, dtype=torch.int64)
            try:
                attached(net, example_inputs=example, loss_fn=F.cross_entropy)
            except UnsupportedModuleError:
                assert change is swap
            assert lasting_draws(inside) == before
        assert inside.numpy is generator
        draw_all(inside, None)
        drawn.append(lasting_draws(inside))
        assert "_randbelow" not in vars(inside.python)
        assert "_randbelow" not in vars(random.random.__self__)
    assert drawn[0] == drawn[1]
