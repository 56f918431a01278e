"""A random number that each sample draws for itself hides no mixing from the check.

Nor is a module refused because its samples draw such numbers, whatever they are of.
"""

import random

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import distributions, nn

from dpsgd_explorer.dp.config import ENGINES
from dpsgd_explorer.errors import UnsupportedModuleError
from tests.dp.checks.test_shared_draws import WIDTH, Coin, first_pass

RARE = 1e-4
#: Rejected mixing is named with its module and its condition.
REFUSED = r"\(Coin\) mixes the samples .* draws for each sample"


def column(x, draw):
    return torch.tensor([[draw()] for _ in range(len(x))])


#: {draw: a number in [0, 1) for each sample}, given the module and its input.
UNIFORM = {
    "torch.rand": lambda m, x: torch.rand(len(x), 1),
    "rand_like": lambda m, x: torch.rand_like(x),
    "uniform_": lambda m, x: x.new_empty(len(x), 1).uniform_(),
    "Uniform": lambda m, x: distributions.Uniform(0, 1).sample((len(x), 1)),
    "samples last": lambda m, x: torch.rand(2, len(x))[1, :, None],
    "torch.Generator": lambda m, x: torch.rand(len(x), 1, generator=m.torch),
    "after dropout": lambda m, x: (F.dropout(x, 0.5), torch.rand(len(x), 1))[1],
    "large": lambda m, x: torch.rand(len(x), 1000)[:, -1:],
    "randn": lambda m, x: torch.special.ndtr(torch.randn(len(x), 1)),
}
#: {draw: whether a number of probability p came, for each sample}.
EVENTS = {
    "bernoulli": lambda m, x, p: torch.bernoulli(torch.full((len(x), 1), p)),
    "bernoulli_": lambda m, x, p: x.new_empty(len(x), 1).bernoulli_(p),
    "not bernoulli_": lambda m, x, p: 1 - x.new_empty(x.shape).bernoulli_(1 - p),
    "Categorical": lambda m, x, p: distributions.Categorical(
        torch.tensor([1 - p, p])
    ).sample((len(x), 1)),
    "randint": lambda m, x, p: torch.randint(round(1 / p), (len(x), 1)) == 0,
    "Poisson": lambda m, x, p: torch.poisson(torch.full((len(x), 1), p)) > 0,
    "Beta": lambda m, x, p: distributions.Beta(1.0, 1.0).sample((len(x), 1)) > 1 - p,
    "python": lambda m, x, p: column(x, random.random) < p,
    "numpy": lambda m, x, p: torch.from_numpy(np.random.rand(len(x), 1)) < p,
    "numpy, one by one": lambda m, x, p: column(x, m.numpy.random) < p,
    "two": lambda m, x, p: (torch.rand(len(x), 1) < p) & (torch.rand(len(x), 1) > 0.9),
    "gumbel": lambda m, x, p: F.gumbel_softmax(
        torch.tensor([-np.log(p), 0.0]).expand(len(x), 2), hard=True
    )[:, 1:],
    "own and shared": lambda m, x, p: (torch.rand(len(x), 1) < p) & (torch.rand(1) < p),
}
COINS = (
    {f"{n} < p": lambda m, x, p, d=d: d(m, x) < p for n, d in UNIFORM.items()}
    | {f"{n} > 1 - p": lambda m, x, p, d=d: d(m, x) > 1 - p for n, d in UNIFORM.items()}
    | EVENTS
)


def neighbour(x):
    return x.flip(0)


def another(x):
    return x[torch.randperm(len(x))]


def mixed_where(coin, partner=neighbour):
    def change(m, x):
        return x + 0.3 * coin(m, x).to(x) * (partner(x) - x)

    return Coin(lambda m: True, change)


@pytest.mark.parametrize("name", COINS)
def test_rows_that_seldom_mix_are_refused(name):
    with pytest.raises(UnsupportedModuleError, match=r"\(Coin\) mixes the samples"):
        first_pass(mixed_where(lambda m, x: COINS[name](m, x, RARE)))


@pytest.mark.parametrize("partner", [neighbour, another])
@pytest.mark.parametrize("name", ["torch.rand < p", "bernoulli_"])
@pytest.mark.parametrize("p", [0.05, 0.01])
def test_a_rare_row_is_named(name, p, partner):
    with pytest.raises(UnsupportedModuleError, match=REFUSED):
        first_pass(mixed_where(lambda m, x: COINS[name](m, x, p), partner))


@pytest.mark.parametrize("place", [0.1, 0.3, 0.6, 0.9])
def test_rows_that_mix_inside_the_range_are_refused(place):
    def coin(m, x):
        return (torch.rand(len(x), 1) - place).abs() < 0.07

    with pytest.raises(UnsupportedModuleError, match="mixes the samples"):
        first_pass(mixed_where(coin))


def test_rows_that_seldom_mix_in_large_batches_alone_are_refused():
    def coin(m, x):
        return (torch.rand(len(x), 1) < RARE) & (len(x) > 3)

    with pytest.raises(UnsupportedModuleError, match=REFUSED):
        first_pass(mixed_where(coin), size=8)


def test_a_rare_row_after_dropout_is_refused():
    coin = mixed_where(lambda m, x: torch.rand(len(x), 1) < RARE)
    dropouts = [nn.Dropout(0.2) for _ in range(5)]
    with pytest.raises(UnsupportedModuleError, match=r"1\.5 \(Coin\) mixes"):
        first_pass(nn.Sequential(*dropouts, coin))


def test_a_shared_number_after_dropout_is_refused():
    coin = Coin(lambda m: torch.rand(1) < RARE)
    dropouts = [nn.Dropout(0.2) for _ in range(5)]
    with pytest.raises(UnsupportedModuleError, match=r"1\.5 \(Coin\) mixes"):
        first_pass(nn.Sequential(*dropouts, coin))


def like(x):
    return torch.ones(len(x), 1)


def category_of(x):
    return distributions.Categorical(logits=x.detach()).sample()[:, None]


def masked_places(x):
    """A masked autoencoder's: two places of each sample, and none twice."""
    kept = torch.multinomial(torch.ones(len(x), WIDTH), 2)
    mask = torch.zeros(x.shape, dtype=torch.bool).scatter_(1, kept, True)
    return x[mask].view(len(x), 2).sum(1, keepdim=True) * x


def checked_value(x):
    """A draw whose own distribution looks whether it is one of its values."""
    of_count = distributions.Poisson(4 * like(x), validate_args=True)
    of_sum = distributions.Binomial(7, 0.3 * like(x), validate_args=True)
    counts, sums = of_count.sample(), of_sum.sample()
    of_count.log_prob(counts), of_sum.log_prob(sums)
    return x * (1 + counts + sums)


def uneven_draws(rates):
    """Draws that take more or fewer numbers of the generator, by the rates."""
    gammas = distributions.Gamma(rates, 1.0).sample()
    shares = distributions.Dirichlet(rates.clamp(max=9)).sample()
    counts = torch.binomial(rates.ceil(), torch.full_like(rates, 0.4))
    return torch.poisson(rates.clamp(max=50)) + gammas + shares + counts


def gumbel_noise(x):
    return x - (-torch.rand_like(x).log()).log()


def block(x):
    """DropBlock's scale is that of the whole mask."""
    mask = (torch.rand(len(x), 1, WIDTH) > 0.2).to(x).flatten(1)
    return x * mask * mask.numel() / mask.sum()


def rejected_until_small(x):
    draws = torch.rand(len(x), 1)
    while bool((draws > 0.9).any()):
        draws = torch.where(draws > 0.9, torch.rand(len(x), 1), draws)
    return x * draws


def layer_drop(x):
    keep = x.new_empty(len(x), 1).bernoulli_(0.8)
    return x + x.tanh() * keep / 0.8


#: {a random change of each sample by itself}
HONEST = {
    "randint": lambda x: x * torch.randint(5, (len(x), 1)),
    "randint, low": lambda x: x * torch.randint(2, 5, (len(x), 1)),
    "randint_like": lambda x: x * torch.randint_like(x, 5),
    "randint_like, low": lambda x: x * torch.randint_like(x, 2, 5),
    "random_": lambda x: x * x.new_empty(len(x), 1).random_(7),
    "random_, from": lambda x: x * x.new_empty(len(x), 1).random_(2, 7),
    "random_, all": lambda x: (
        x * torch.empty(len(x), 1, dtype=torch.int8).random_() / 100
    ),
    "index": lambda x: x.gather(1, torch.randint(WIDTH, (len(x), 3))).repeat(1, 2),
    "Categorical": lambda x: x * category_of(x),
    "one-hot": lambda x: x * distributions.OneHotCategorical(logits=0 * x).sample(),
    "multinomial": lambda x: x * torch.multinomial(torch.ones(len(x), 5), 1),
    "multinomial, several": lambda x: x.gather(
        1, torch.multinomial(torch.ones(x.shape), WIDTH)
    ),
    "multinomial, replaced": lambda x: x.gather(
        1, torch.multinomial(torch.ones(x.shape), WIDTH, replacement=True)
    ),
    "masked places": masked_places,
    "Gamma": lambda x: x * distributions.Gamma(2 * like(x), 3.0).sample(),
    "Beta": lambda x: x * distributions.Beta(0.3 * like(x), 0.3).sample(),
    "Dirichlet": lambda x: x * distributions.Dirichlet(torch.ones(x.shape)).sample(),
    "Poisson": lambda x: x * torch.poisson(3 * like(x)),
    "Binomial": lambda x: x * distributions.Binomial(5, 0.3 * like(x)).sample(),
    "rates of its own": lambda x: F.dropout(x * uneven_draws(x.detach().exp())),
    "checked values": checked_value,
    "geometric_": lambda x: x * x.new_empty(len(x), 1).geometric_(0.3),
    "log_normal_": lambda x: x * x.new_empty(len(x), 1).log_normal_(),
    "cauchy_": lambda x: x + x.new_empty(len(x), 1).cauchy_(),
    "normal, float std": lambda x: torch.normal(x.detach(), 0.1) + x,
    "normal, float mean": lambda x: torch.normal(0.0, like(x)) + x,
    "normal, tensors": lambda x: torch.normal(x.detach(), x.detach().abs()) + x,
    "normal, floats": lambda x: torch.normal(0.0, 1.0, (len(x), 1)) + x,
    "StudentT": lambda x: x * distributions.StudentT(3 * like(x)).sample(),
    "VonMises": lambda x: x * distributions.VonMises(like(x), 1.0).sample().cos(),
    "reparameterised": lambda x: distributions.Normal(x, x.exp()).rsample(),
    "gumbel": lambda x: x * F.gumbel_softmax(x),
    "gumbel, hard": lambda x: x * F.gumbel_softmax(x, hard=True),
    "gumbel by hand": lambda x: x * gumbel_noise(x).softmax(1),
    "noisy top-k": lambda x: (
        x * (x + torch.randn_like(x)).topk(2).indices.sum(1, keepdim=True)
    ),
    "masked tokens": lambda x: x.masked_fill(torch.rand_like(x) < 0.15, 0),
    "shuffled places": lambda x: x.gather(1, torch.rand(x.shape).argsort(1)),
    "DropBlock": block,
    "rejection": rejected_until_small,
    "layer drop": layer_drop,
    "dropout": lambda x: F.alpha_dropout(F.dropout(x), 0.3, training=True),
    "feature dropout": lambda x: F.dropout1d(x[:, None]).squeeze(1),
    "rrelu": lambda x: F.rrelu(x, training=True),
    "numpy": lambda x: x * torch.from_numpy(np.random.rand(len(x), 1)).float(),
}


class PerSample(nn.Module):
    """Changes each sample by itself while it is trained."""

    def __init__(self, change):
        super().__init__()
        self.change = change

    def forward(self, x):
        return self.change(x) if self.training else x


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.long("every combination"))
        if name == "VonMises"  # it draws again until a draw is accepted
        else name
        for name in HONEST
    ],
)
def test_each_samples_own_draws_pass(name):
    first_pass(PerSample(HONEST[name]), size=9)


@pytest.mark.parametrize("engine", ["hooks", "extending", "microbatch"])
def test_own_draws_pass_in_all_engines(engine):
    net = nn.Sequential(
        *[PerSample(HONEST[n]) for n in ("randint", "Gamma", "layer drop")]
    )
    first_pass(net, engine=engine)


class Always(PerSample):
    """Changes them in evaluation mode, too."""

    def forward(self, x):
        return self.change(x)


ALWAYS = {
    "noise": lambda x: x * torch.randn_like(x),
    "dropout": lambda x: F.dropout(x, 0.5, training=True),
    "one row for all samples": lambda x: x * torch.randn(WIDTH),
    "gumbel": F.gumbel_softmax,
    "masked": lambda x: x.masked_fill(torch.rand(len(x), 1) < 0.3, 0.0),
}


#: An extending engine runs these modules, which have no parameters, as hooks does.
RUN = [
    (name, engine)
    for name in ALWAYS
    for engine in sorted(ENGINES)
    if engine != "extending" or name == "noise"
]


@pytest.mark.parametrize(("name", "engine"), RUN)
def test_draws_in_evaluation_mode_pass_in_all_engines(name, engine):
    first_pass(Always(ALWAYS[name]), engine=engine)


def test_a_draw_without_a_known_value_is_named():
    library = torch.library.Library("of_test", "FRAGMENT")
    library.define(
        "gaps(Tensor x) -> Tensor", tags=(torch.Tag.nondeterministic_seeded,)
    )
    library.impl("gaps", lambda x: torch.rand(x.shape[::-1]).T.clone(), "CPU")
    change = PerSample(lambda x: x * torch.ops.of_test.gaps(x.detach()))
    with pytest.raises(UnsupportedModuleError, match=r"of_test\.gaps"):
        first_pass(change)


def test_a_draw_whose_mean_is_none_of_its_values_is_named():
    def checked_bits(x):
        bits = distributions.Bernoulli(logits=x.detach(), validate_args=True)
        return x + bits.log_prob(bits.sample())

    with pytest.raises(UnsupportedModuleError, match="random numbers at their means"):
        first_pass(PerSample(checked_bits))


def passes_of(inside):
    """Return how often a module runs until its first step."""
    runs = []
    inside.register_forward_hook(lambda *_: runs.append(1))
    first_pass(inside)
    return len(runs)


def test_only_modules_that_draw_are_run_more_often():
    none = passes_of(nn.Tanh())
    assert passes_of(nn.Dropout()) > none
    assert passes_of(nn.Identity()) == none
