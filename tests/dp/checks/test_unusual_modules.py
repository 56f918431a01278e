"""Modules that users write: each is trained exactly, or refused with a way that works.

Nothing is clipped and no noise is added, so that the private gradient must be the
ordinary one.
"""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.parametrizations import weight_norm
from torch.utils.checkpoint import checkpoint

from dpsgd_explorer.errors import UnsupportedModuleError
from tests.dp.nets import attached

pytestmark = pytest.mark.filterwarnings(
    # vmap maps some of torch's operations one sample at a time, and says so.
    "ignore:There is a performance drop:UserWarning"
)

BATCH, WIDTH, LENGTH, CLASSES = 5, 4, 6, 3
ENGINES = ("hooks", "extending", "vmap", "microbatch")


class ListOfParameters(nn.Module):
    def __init__(self):
        super().__init__()
        self.weights = nn.ParameterList([nn.Parameter(torch.randn(WIDTH, CLASSES))])

    def forward(self, x):
        return x @ self.weights[0]


class DictOfParameters(nn.Module):
    def __init__(self):
        super().__init__()
        self.scales = nn.ParameterDict({"a": nn.Parameter(torch.randn(CLASSES))})
        self.layer = nn.Linear(WIDTH, CLASSES)

    def forward(self, x):
        return self.layer(x) * self.scales["a"]


class RelativePositions(nn.Module):
    """A table of positions that no sample has a row of its own in, as in T5."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(LENGTH, 2)
        self.layer = nn.Linear(WIDTH, CLASSES)

    def forward(self, x):
        place = torch.arange(WIDTH)
        apart = (place[:, None] - place).abs()
        bias = self.table(apart).permute(2, 0, 1).sum(0)
        return self.layer(x @ bias)


class ExpandedPositions(RelativePositions):
    """The same by the way that the refusal names."""

    def forward(self, x):
        place = torch.arange(WIDTH)
        apart = (place[:, None] - place).abs().expand(len(x), -1, -1)
        return self.layer((x[:, None] @ self.table(apart).sum(3)).squeeze(1))


class FunctionalUse(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(WIDTH, CLASSES)

    def forward(self, x):
        return F.linear(x, self.layer.weight, self.layer.bias)


class Cache:
    """Neither a tensor nor a container that torch knows."""


class WithCache(nn.Module):
    def __init__(self, use_cache=True):
        super().__init__()
        self.layer, self.use_cache = nn.Linear(WIDTH, CLASSES), use_cache

    def forward(self, x):
        return self.layer(x), Cache() if self.use_cache else None


class OwnLoss(nn.Module):
    def __init__(self, reduction="mean"):
        super().__init__()
        self.layer, self.reduction = nn.Linear(WIDTH, CLASSES), reduction

    def forward(self, x, y):
        return F.cross_entropy(self.layer(x), y, reduction=self.reduction)


class Checkpointed(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(WIDTH, 8), nn.Linear(8, CLASSES)

    def forward(self, x):
        hidden = checkpoint(lambda t: self.first(t).relu(), x, use_reentrant=False)
        return self.last(hidden)


class Bags(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.layer = nn.EmbeddingBag(9, 4), nn.Linear(4, CLASSES)

    def forward(self, offsets, ids):
        return self.layer(self.table(ids, offsets))


class BagsOfRows(Bags):
    def forward(self, ids):
        offsets = torch.arange(len(ids)) * ids.shape[1]
        return self.layer(self.table(ids.flatten(), offsets))


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(WIDTH, 2, 8, 0.0, batch_first=True)
        self.last = nn.Linear(WIDTH, CLASSES)

    def forward(self, x):
        return self.last(self.layer(x).mean(1))


def rows():
    return torch.randn(BATCH, WIDTH), torch.randint(0, CLASSES, (BATCH,))


def gradients(module, inputs, loss, engine=None, reduction="mean"):
    """The gradient of a batch, by an engine or without one: {name: gradient}."""
    module.zero_grad()
    if engine is not None:
        engine, optimizer = attached(
            module,
            batch_size=BATCH,
            max_grad_norm=1e9,
            clipping_fn="Abadi",
            loss_reduction=reduction,
            engine=engine,
            learning_rate=0.0,
        )
    loss(module(*inputs)).backward()
    if engine is not None:
        optimizer.step()
        engine.detach()
    named = module.named_parameters()
    return {name: p.grad.clone() for name, p in named if p.grad is not None}


def assert_exact(module, inputs, loss, engine, rtol=1e-4, **options):
    expected = gradients(module, inputs, loss)
    found = gradients(module, inputs, loss, engine, **options)
    assert found.keys() == expected.keys()
    for name, gradient in found.items():
        torch.testing.assert_close(
            gradient, expected[name], rtol=rtol, atol=rtol, msg=name
        )


def case(build, refused, words):
    """A module, the engines that refuse it and what their message says."""
    return pytest.param(build, refused, words, id=build.__name__)


ON_ROWS = [
    case(ListOfParameters, (), ""),
    case(DictOfParameters, (), ""),
    case(RelativePositions, ENGINES[:2], r"table is the same for all samples.*vmap"),
    case(ExpandedPositions, (), ""),
    case(FunctionalUse, ENGINES[:2], r"Call the layers.*vmap"),
    case(Checkpointed, ("vmap",), r'checkpointed part.*"hooks" or "microbatch"'),
]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("build", "refused", "words"), ON_ROWS)
def test_a_module_is_trained_exactly_or_refused_with_what_works(
    build, refused, words, engine
):
    torch.manual_seed(1)
    x, y = rows()

    def loss(out):
        return F.cross_entropy(out, y)

    if engine in refused:
        with pytest.raises(UnsupportedModuleError, match=words):
            gradients(build(), (x,), loss, engine)
    else:
        assert_exact(build(), (x,), loss, engine)


@pytest.mark.parametrize("engine", ENGINES)
def test_parameters_made_from_others(engine):
    torch.manual_seed(2)
    x, y = rows()
    module = nn.Sequential(weight_norm(nn.Linear(WIDTH, CLASSES)))

    def loss(out):
        return F.cross_entropy(out, y)

    assert_exact(module, (x,), loss, engine)


@pytest.mark.parametrize("engine", ENGINES[2:])
def test_an_output_that_cannot_be_joined_is_named(engine):
    torch.manual_seed(3)
    x, y = rows()

    def loss(outputs):
        return F.cross_entropy(outputs[0], y)

    with pytest.raises(
        UnsupportedModuleError, match=r"contains a Cache.*use_cache=False"
    ):
        gradients(WithCache(), (x,), loss, engine)
    assert_exact(WithCache(use_cache=False), (x,), loss, engine)


@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("engine", ENGINES)
def test_a_module_may_give_its_own_loss(engine, reduction):
    torch.manual_seed(4)
    module = OwnLoss(reduction)
    assert_exact(module, rows(), lambda own: own, engine, reduction=reduction)


@pytest.mark.parametrize("engine", ENGINES)
def test_torchs_encoder_layer(engine):
    torch.manual_seed(5)
    x, y = torch.randn(BATCH, LENGTH, WIDTH), torch.randint(0, CLASSES, (BATCH,))
    fast = torch.backends.mha.get_fastpath_enabled()
    assert_exact(Encoder(), (x,), lambda out: F.cross_entropy(out, y), engine)
    assert torch.backends.mha.get_fastpath_enabled() == fast


@pytest.mark.parametrize("engine", ENGINES)
def test_parameters_in_bfloat16(engine):
    torch.manual_seed(6)
    x, y = rows()
    module = nn.Sequential(nn.Linear(WIDTH, CLASSES)).bfloat16()
    call = (x.bfloat16(),)
    assert_exact(
        module, call, lambda out: F.cross_entropy(out.float(), y), engine, rtol=0.05
    )


@pytest.mark.parametrize("engine", ENGINES)
def test_bags_that_begin_where_inputs_say_are_refused_and_inside_they_work(engine):
    torch.manual_seed(7)
    ids, y = torch.randint(0, 9, (BATCH, 3)), rows()[1]

    def loss(out):
        return F.cross_entropy(out, y)

    flat = (torch.arange(BATCH) * 3, ids.flatten())
    with pytest.raises(UnsupportedModuleError, match=r"offsets"):
        gradients(Bags(), flat, loss, engine)
    if engine != "vmap":  # which has no bags that begin where a tensor says
        assert_exact(BagsOfRows(), (ids,), loss, engine)


def test_an_error_of_the_module_on_random_inputs_says_where_it_comes_from():
    class Fails(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(WIDTH, CLASSES)

        def forward(self, x):
            return {}[len(x)]

    with pytest.raises(UnsupportedModuleError, match=r"safety check.*KeyError: 3"):
        gradients(Fails(), rows()[:1], lambda out: out, "hooks")


class Selecting(nn.Module):
    """Takes the mean of some samples away: how many, depends on the batch."""

    def __init__(self):
        super().__init__()
        self.first, self.some = nn.Linear(WIDTH, WIDTH), nn.Identity()
        self.last = nn.Linear(WIDTH, CLASSES)

    def forward(self, x):
        rest = x[1:]
        x = self.first(x)
        usual = x[1:][rest.abs().amax(1) < 4]
        return self.last(x - self.some(usual).sum(0))


def test_mixing_is_named_where_a_module_inside_sees_another_number_of_rows():
    torch.manual_seed(0)
    with pytest.raises(UnsupportedModuleError, match=r"the module \(Selecting\) mixes"):
        gradients(Selecting(), rows()[:1], lambda out: out.sum(), "hooks")
