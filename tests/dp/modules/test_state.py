"""What a model stores of the samples beside its gradients is refused by name."""

import copy

import pytest
import torch
from torch import nn
from torch.nn.utils.parametrize import register_parametrization, remove_parametrizations

from dpsgd_explorer.dp import make_private_ready
from dpsgd_explorer.dp.config import CHOICES
from dpsgd_explorer.dp.modules.state import ModuleState, check_equal_changes
from dpsgd_explorer.errors import UnsupportedModuleError
from tests.dp.nets import attached, step

ENGINE = pytest.mark.parametrize("engine", CHOICES["engine"])


class Tokens(nn.Module):
    """A table and a trained head."""

    def __init__(self, table):
        super().__init__()
        self.table, self.head = table, nn.Linear(6, 3)

    def forward(self, ids):
        rows = self.table(ids)
        return self.head(rows.mean(1) if rows.dim() == 3 else rows)


class Codebook(nn.Module):
    """A frozen parameter that follows the mean of what it sees."""

    def __init__(self):
        super().__init__()
        self.code = nn.Parameter(torch.zeros(6), requires_grad=False)

    def forward(self, x):
        self.code.data.lerp_(x.detach().mean(0), 0.1)
        return x


class Extra(nn.Module):
    """A statistic in the extra state."""

    total = 0.0

    def forward(self, x):
        self.total += float(x.detach().sum())
        return x

    def get_extra_state(self):
        return {"total": self.total}

    def set_extra_state(self, state):
        self.total = state["total"]


class Counting(nn.Module):
    """A buffer that counts samples."""

    def __init__(self, persistent=True):
        super().__init__()
        self.register_buffer("count", torch.zeros(()), persistent=persistent)

    def forward(self, x):
        self.count += len(x)
        return x


class CountInTraining(nn.Module):
    """Counts in training mode only, in a buffer that it replaces."""

    def __init__(self):
        super().__init__()
        self.register_buffer("size", torch.zeros(()))

    def forward(self, x):
        if self.training:
            self.size = self.size + len(x)
        return x


class ExtraCount(Extra):
    """Counts samples in the extra state."""

    def forward(self, x):
        self.total += len(x)
        return x


def around(inside):
    return nn.Sequential(nn.Linear(4, 6), inside, nn.Linear(6, 3))


TABLES = {
    "embedding": lambda: nn.Embedding(11, 6, max_norm=1.0),
    "bag": lambda: nn.EmbeddingBag(11, 6, max_norm=1.0),
}


@ENGINE
@pytest.mark.filterwarnings("ignore:There is a performance drop")
@pytest.mark.parametrize("frozen", [True, False])
@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_a_table_with_max_norm_is_refused_and_the_advice_works(table, frozen, engine):
    net = Tokens(table().requires_grad_(not frozen))
    with pytest.raises(UnsupportedModuleError, match="make_private_ready") as caught:
        attached(net, engine=engine)
    assert "max_norm=1" in str(caught.value)
    assert "table (E" in str(caught.value)
    assert "freeze" not in str(caught.value)
    ids = torch.randint(0, 11, (5, 4))
    expected = copy.deepcopy(net)(ids)
    make_private_ready(net, tell=lambda line: None)
    torch.testing.assert_close(net(ids), expected)
    _, optimizer = attached(net, engine=engine)
    kept = net.table.weight.detach().clone()
    step(net, optimizer, ids, torch.zeros(5, dtype=torch.int64))
    assert torch.equal(net.table.weight, kept) == frozen


STORES = {
    "codebook": (Codebook, r"1 stores a statistic .* parameter '1\.code'"),
    "extra state": (Extra, "1 stores a statistic .* extra state"),
    "count": (Counting, r"1 stores the number of samples .* buffer '1\.count'"),
    "count, not saved": (
        lambda: Counting(persistent=False),
        r"the number of samples .* '1\.count'",
    ),
    "count in training": (CountInTraining, r"the number of samples .* '1\.size'"),
    "extra count": (ExtraCount, "the number of samples .* extra state"),
}


@pytest.mark.parametrize("engine", ["hooks", "extending", "microbatch"])
@pytest.mark.parametrize("store", STORES.values(), ids=STORES)
def test_what_stores_something_of_the_samples_is_refused(store, engine):
    """Under vmap the module sees one sample, or cannot run."""
    make, message = store
    net = around(make())
    attached(net, engine=engine)
    before = ModuleState(net)
    with pytest.raises(UnsupportedModuleError, match=message):
        net(torch.randn(5, 4))
    assert before.changes() == {}


class Passes(nn.Module):
    """Counts passes, in a buffer, a parameter and the extra state alike."""

    def __init__(self):
        super().__init__()
        self.register_buffer("passes", torch.zeros(()))
        self.step = nn.Parameter(torch.zeros(()), requires_grad=False)
        self.done = 0

    def forward(self, x):
        self.passes += 1
        self.step += 1
        self.done += 1
        return x

    def get_extra_state(self):
        return self.done

    def set_extra_state(self, state):
        self.done = state


@pytest.mark.parametrize("engine", ["hooks", "extending", "vmap"])
def test_a_count_of_passes_is_taken_and_left_alone(engine):
    net = around(Passes())
    attached(net, engine=engine)
    net(torch.randn(5, 4))
    assert net[1].passes == net[1].step == net[1].done == 1


def test_one_pass_a_sample_counts_samples():
    net = around(Passes())
    attached(net, engine="microbatch")
    with pytest.raises(UnsupportedModuleError, match="the number of samples"):
        net(torch.randn(5, 4))


class Awkward(nn.Module):
    """Resizes, adds and drops what it stores."""

    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(2))
        self.register_buffer("gone", torch.zeros(1))
        self.register_buffer("nan", torch.full((2,), float("nan")))

    def forward(self, x):
        self.seen.data = x.detach().clone()
        self.register_buffer("new", x.detach().sum())
        if "gone" in self._buffers:
            del self.gone
        return x


def test_everything_is_put_back_as_it_was():
    net = Awkward()
    own = dict(net.named_buffers())
    state = ModuleState(net)
    assert state.changes() == {}
    net(torch.ones(3, 2))
    changes = state.changes()
    assert set(changes) == {"seen", "new", "gone"}
    state.restore()
    assert dict(net.named_buffers()).keys() == own.keys()
    assert all(net.get_buffer(name) is buffer for name, buffer in own.items())
    assert torch.equal(net.seen, torch.zeros(2))
    net(torch.zeros(3, 2))
    with pytest.raises(UnsupportedModuleError, match="'new'"):
        check_equal_changes(net, changes, state.changes())


class Plus(nn.Module):
    def __init__(self, other):
        super().__init__()
        object.__setattr__(self, "other", other)

    def forward(self, weight):
        return weight + self.other


class Parametrizing(nn.Module):
    """Parametrizes a frozen weight for a while, as LoRA on experts does.

    Under vmap it fails after the registration and before its ``try``.
    """

    def __init__(self):
        super().__init__()
        self.base = nn.Linear(4, 3).requires_grad_(False)
        self.low = nn.Parameter(torch.ones(3, 4))

    def forward(self, x):
        register_parametrization(self.base, "weight", Plus(self.low))
        self.base.parametrizations.weight.original.requires_grad_(False)
        try:
            return self.base(x)
        finally:
            remove_parametrizations(self.base, "weight", leave_parametrized=False)


@pytest.mark.parametrize("engine", ["hooks", "extending", "vmap"])
def test_a_forward_that_fails_halfway_leaves_the_model_as_it_was(engine):
    net, x = Parametrizing(), torch.randn(5, 4)
    parameters, expected = dict(net.named_parameters()), net(x)
    engine, _ = attached(net, engine=engine)
    with pytest.raises(UnsupportedModuleError, match="microbatch"):
        net(x)
    engine.detach()
    assert type(net.base) is nn.Linear
    assert dict(net.named_parameters()) == parameters
    assert [n for n, p in net.named_parameters() if p.requires_grad] == ["low"]
    assert torch.equal(net(x), expected)
