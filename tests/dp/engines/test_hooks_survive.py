"""What happens around a recorded pass does not change it, and is left as it was."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

from dpsgd_explorer.dp import per_sample_gradients
from dpsgd_explorer.errors import PrivacyError
from tests.dp.engines.test_engines_agree import EXACT, check_clipped_sum, loop_sum
from tests.dp.nets import attached, step


class Scale(nn.Module):
    """A module without a rule."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.full((4,), 1.5))

    def forward(self, x):
        return x * self.scale


class Blocks(nn.Module):
    """A part of each kind of rule, maybe run again in backward."""

    def __init__(self, checkpoints=False, dropout=0.0, reentrant=False):
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.block = nn.ModuleList(
            [
                nn.TransformerEncoderLayer(4, 2, 8, dropout, batch_first=True),
                Scale(),
                nn.LSTM(4, 4, 2, batch_first=True, dropout=dropout),
            ]
        )
        self.head = nn.Linear(4, 3)
        self.checkpoints, self.reentrant = checkpoints, reentrant

    def body(self, x):
        attention, scale, cell = self.block
        return torch.tanh(cell(scale(attention(x)))[0])

    def forward(self, x):
        x = self.first(torch.stack([x, x.flip(1)], 1))
        if self.checkpoints:
            x = checkpoint(self.body, x, use_reentrant=self.reentrant)
        else:
            x = self.body(x)
        return self.head(x).sum(1)


def net_and_data(**options):
    torch.manual_seed(0)
    net = Blocks(**options).double()
    return net, torch.randn(5, 4, dtype=torch.float64), torch.randint(0, 3, (5,))


def test_gradient_checkpointing_gives_the_same_sum():
    check_clipped_sum(*net_and_data(checkpoints=True))


@pytest.mark.parametrize("engine", ["hooks", "extending"])
def test_checkpointing_the_first_layers_gives_the_same_sum(engine):
    class First(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Sequential(
                nn.Linear(4, 4), nn.Tanh(), nn.LayerNorm(4), nn.Linear(4, 3)
            )

        def forward(self, x):
            return torch.tanh(checkpoint(self.body, x, use_reentrant=False))

    torch.manual_seed(0)
    check_clipped_sum(First().double(), torch.randn(5, 4).double(), engine=engine)


@pytest.mark.filterwarnings("ignore:None of the inputs")  # of torch, without a graph
def test_checkpointing_that_hides_layers_is_refused():
    net, x, _ = net_and_data(checkpoints=True, reentrant=True)
    attached(net)
    with pytest.raises(PrivacyError, match="reentrant"):
        net(x)


def test_dropout_masks_are_used_once_and_not_drawn_again():
    net, x, y = net_and_data(dropout=0.5)
    torch.manual_seed(3)
    gradients = per_sample_gradients(net, F.cross_entropy, x, y)
    masked = copy.deepcopy(net)
    without_engine = {n: g.sum(0) for n, g in gradients.items()}
    # Under the masks of this very pass, the sum is that of autograd: replay them.
    torch.manual_seed(3)
    again = per_sample_gradients(masked, F.cross_entropy, x, y)
    torch.manual_seed(4)
    other = per_sample_gradients(masked, F.cross_entropy, x, y)
    for name, total in without_engine.items():
        torch.testing.assert_close(total, again[name].sum(0), **EXACT)
    assert any(not torch.equal(gradients[n], other[n]) for n in gradients)


class Dropping(nn.Module):
    """Layers whose forward is replaced, and masks inside and between them."""

    def __init__(self):
        super().__init__()
        self.cell = nn.GRU(4, 4, 2, dropout=0.5, batch_first=True)
        self.mix = nn.MultiheadAttention(4, 2, dropout=0.5, batch_first=True)
        self.head = nn.Linear(4, 3)

    def forward(self, x):
        x = self.cell(x.unsqueeze(1).expand(-1, 3, -1))[0]
        return self.head(F.dropout(self.mix(x, x, x)[0], 0.5, self.training).sum(1))


def test_random_masks_are_those_of_torchs_own_layers():
    torch.manual_seed(0)
    net, x = Dropping().double(), torch.randn(5, 4, dtype=torch.float64)
    plain = copy.deepcopy(net)
    attached(net)
    torch.manual_seed(3)
    expected = plain(x)
    torch.manual_seed(3)
    torch.testing.assert_close(net(x), expected, **EXACT)


def test_gradients_add_up_to_autograds_under_the_same_masks():
    torch.manual_seed(0)
    net, x = Dropping().double(), torch.randn(5, 4, dtype=torch.float64)
    y = torch.randint(0, 3, (5,))
    torch.manual_seed(3)
    gradients = per_sample_gradients(net, F.cross_entropy, x, y)
    torch.manual_seed(3)
    F.cross_entropy(net(x), y, reduction="sum").backward()
    for name, p in net.named_parameters():
        torch.testing.assert_close(gradients[name].sum(0), p.grad, **EXACT)


def test_passes_in_between_change_nothing():
    net, x, y = net_and_data()
    expected = loop_sum(net, x, y, "automatic", 0.3)
    engine, optimizer = attached(net, max_grad_norm=0.3)
    outputs = net(x)
    with torch.no_grad():
        net(x[:2])
    with torch.inference_mode():
        net(x[:3])
    net.eval()
    with torch.no_grad():
        net(x)
    net.train()
    F.cross_entropy(outputs, y).backward()
    optimizer.step()
    divisor = engine.plan.expected_batch_size
    actual = {n: p.private_grad * divisor for n, p in net.named_parameters()}
    torch.testing.assert_close(actual, expected, **EXACT)


def test_a_copy_of_a_watched_module_is_not_watched():
    net, x, _ = net_and_data()
    attached(net)
    net(x)
    twin = copy.deepcopy(net)
    with torch.no_grad():
        for p in twin.parameters():
            p.zero_()
    assert not torch.equal(net(x), twin(x))
    assert twin(x).abs().sum() == 0


class Failing(nn.Module):
    """Raises in the middle of a pass, once asked to."""

    def __init__(self):
        super().__init__()
        self.fails = False

    def forward(self, x):
        if self.fails:
            raise KeyError("in the model")
        return x


def state(net):
    return {
        "asked": [p.requires_grad for p in net.parameters()],
        "gradients": [p.grad for p in net.parameters()],
        "fast": torch.backends.mha.get_fastpath_enabled(),
        "names": list(net.state_dict()),
    }


def test_an_exception_in_the_model_leaves_it_as_it_was():
    torch.manual_seed(0)
    blocks, x, y = net_and_data()
    net = nn.Sequential(blocks, Failing(), nn.Linear(3, 3).double(), Scale4())
    expected = loop_sum(net, x, y, "automatic", 0.3)
    before = state(net)
    engine, optimizer = attached(net, max_grad_norm=0.3)
    F.cross_entropy(net(x), y)
    net[1].fails = True
    with pytest.raises(KeyError, match="in the model"):
        net(x)
    assert state(net) == before
    net[1].fails = False
    step(net, optimizer, x, y)
    divisor = engine.plan.expected_batch_size
    actual = {n: p.private_grad * divisor for n, p in net.named_parameters()}
    torch.testing.assert_close(actual, expected, **EXACT)
    engine.detach()
    assert not any(each._forward_hooks for each in net.modules())
    assert not any("forward" in vars(each) for each in net.modules())
    assert not any("_compiled_call_impl" in vars(each) for each in net.modules())


class Scale4(Scale):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(3, dtype=torch.float64))


def test_operations_in_place_change_nothing():
    class InPlace(nn.Module):
        def __init__(self):
            super().__init__()
            self.cell, self.head = nn.RNN(4, 4), nn.Linear(4, 3)
            self.mid, self.scale = nn.Linear(4, 4), Scale()

        def forward(self, x):
            x = self.cell(x.unsqueeze(0))[0].mul_(2.0)[0]
            x = self.mid(x).relu_()
            return self.head(self.scale(x).add_(1.0)).mul_(0.5)

    torch.manual_seed(0)
    check_clipped_sum(InPlace().double(), torch.randn(5, 4).double())


def test_a_step_of_a_verified_module_searches_no_modules(monkeypatch):
    net = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 3))
    _, optimizer = attached(net)
    x, y = torch.randn(5, 4), torch.tensor([0, 1, 2, 1, 0])
    step(net, optimizer, x, y)  # its checks search them
    optimizer.zero_grad()
    searched = []
    modules = nn.Module.named_modules

    def counted(module, *args, **options):
        searched.append(module)
        return modules(module, *args, **options)

    monkeypatch.setattr(nn.Module, "named_modules", counted)
    step(net, optimizer, x, y)
    assert searched == []
