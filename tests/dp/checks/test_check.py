"""What cannot be trained with the guarantee is refused before the first step."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from dpsgd_explorer.dp.config import CHOICES
from dpsgd_explorer.errors import UnsupportedModuleError
from tests.dp.nets import NETS, attached, case

ENGINE = pytest.mark.parametrize("engine", CHOICES["engine"])


class Mean(nn.Module):
    """Takes the mean of the batch away."""

    def forward(self, x):
        return x - x.mean(0)


class Neighbour(nn.Module):
    """Lets each sample see the one before it, a little."""

    def forward(self, x):
        return x + 0.01 * x.roll(1, 0)


class Running(nn.Module):
    """Adds up along the batch: the first sample is alone, the last sees all."""

    def forward(self, x):
        return x + 0.01 * x.cumsum(0)


class LastTwo(nn.Module):
    """Mixes two samples only."""

    def forward(self, x):
        return torch.cat([x[:-2], x[-2:] + x[-2:].flip(0)])


class Largest(nn.Module):
    """Scales by the largest entry of the batch."""

    def forward(self, x):
        return x / x.abs().max()


class OwnBatchNorm(nn.Module):
    """A batch norm under another name, without parameters."""

    def forward(self, x):
        return F.batch_norm(x, None, None, training=True)


class Remembering(nn.Module):
    """Each output is its own sample's, but a buffer remembers them all."""

    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(6))

    def forward(self, x):
        self.seen += x.detach().sum(0)
        return x


class Attention(nn.Module):
    """Attention over the batch instead of within a sample."""

    def forward(self, x):
        return torch.softmax(x @ x.T, 1) @ x


MIXERS = [Mean, Neighbour, Running, LastTwo, Largest, OwnBatchNorm, Attention]


def with_inside(inside):
    return nn.Sequential(nn.Linear(4, 6), nn.Sequential(inside), nn.Linear(6, 3))


def first_pass(net, x=None):
    return net(torch.randn(5, 4) if x is None else x)


@pytest.mark.parametrize("mixer", MIXERS)
def test_what_mixes_samples_is_refused_by_name(mixer):
    net = with_inside(mixer())
    attached(net)
    with pytest.raises(UnsupportedModuleError, match="GroupNorm") as caught:
        first_pass(net)
    assert f"1.0 ({mixer.__name__}) mixes the samples" in str(caught.value)


def test_a_failed_check_fails_again():
    net = with_inside(Mean())
    attached(net)
    for _ in range(2):
        with pytest.raises(UnsupportedModuleError):
            first_pass(net)


def test_what_mixes_samples_behind_the_last_layer_is_refused():
    net = nn.Sequential(nn.Linear(4, 6), Mean())
    attached(net)
    with pytest.raises(UnsupportedModuleError, match=r"1 \(Mean\)"):
        first_pass(net)


def test_a_buffer_that_remembers_samples_is_refused():
    net = with_inside(Remembering())
    attached(net)
    with pytest.raises(UnsupportedModuleError, match=r"1\.0 stores .* '1\.0\.seen'"):
        first_pass(net)


NORMS = {
    "trained": nn.BatchNorm1d(6),
    "not affine": nn.BatchNorm1d(6, affine=False),
    "frozen": nn.BatchNorm1d(6).requires_grad_(False).eval(),
    "no running statistics": nn.BatchNorm1d(6, track_running_stats=False),
}


@ENGINE
@pytest.mark.parametrize("norm", NORMS.values(), ids=NORMS)
def test_batch_norm_is_refused_when_attached(norm, engine):
    with pytest.raises(
        UnsupportedModuleError, match=r"1\.0 \(BatchNorm1d\).*GroupNorm"
    ):
        attached(with_inside(copy.deepcopy(norm)), engine=engine)


@pytest.mark.parametrize("norm", NORMS.values(), ids=NORMS)
def test_batch_norm_is_found_by_measurement_too(norm, monkeypatch):
    monkeypatch.setattr("dpsgd_explorer.dp.session.check_kinds", lambda module: None)
    net = with_inside(copy.deepcopy(norm).requires_grad_(False))
    attached(net)
    with pytest.raises(UnsupportedModuleError, match=r"1\.0"):
        first_pass(net)


def test_instance_norm_with_running_statistics_is_refused():
    net = nn.Sequential(
        nn.Conv2d(1, 2, 1), nn.InstanceNorm2d(2, track_running_stats=True)
    )
    attached(net)
    with pytest.raises(UnsupportedModuleError, match=r"1 stores .*running_mean"):
        net(torch.randn(3, 1, 4, 4))


def engine_with_example(net, loss_fn, **options):
    example = torch.randn(5, 4), torch.randint(0, 3, (5,))
    attached(net, example_inputs=example, loss_fn=loss_fn, **options)


def contrastive(outputs, targets):
    return torch.logsumexp(outputs @ outputs.T, 1).mean()


def sum_loss(outputs, targets):
    return F.cross_entropy(outputs, targets, reduction="sum")


def weighted(outputs, targets):
    """A mean over weights that depend on the batch's labels."""
    return F.cross_entropy(outputs, targets, weight=torch.tensor([1.0, 5.0, 9.0]))


@ENGINE
def test_with_an_example_the_check_runs_when_attached(engine):
    engine_with_example(nn.Linear(4, 3), F.cross_entropy, engine=engine)
    with pytest.raises(UnsupportedModuleError, match="Mean"):
        engine_with_example(with_inside(Mean()), F.cross_entropy)


@ENGINE
def test_a_loss_that_mixes_samples_is_refused(engine):
    with pytest.raises(UnsupportedModuleError, match="the loss mixes the samples"):
        engine_with_example(nn.Linear(4, 3), contrastive, engine=engine)


@ENGINE
@pytest.mark.parametrize(
    ("loss_fn", "reduction"), [(sum_loss, "mean"), (F.cross_entropy, "sum")]
)
def test_a_loss_reduced_otherwise_than_said_is_refused(engine, loss_fn, reduction):
    with pytest.raises(UnsupportedModuleError, match=f"not a {reduction} over samples"):
        engine_with_example(
            nn.Linear(4, 3), loss_fn, loss_reduction=reduction, engine=engine
        )


def test_a_mean_weighted_by_the_batchs_labels_is_refused():
    with pytest.raises(UnsupportedModuleError):
        engine_with_example(nn.Linear(4, 3), weighted)


def test_a_refused_engine_leaves_the_optimizer_alone():
    net = nn.Linear(4, 3)
    with pytest.raises(UnsupportedModuleError):
        engine_with_example(net, contrastive)
    net(torch.randn(2, 4)).sum().backward()
    assert net.weight.grad is not None
    assert not net._forward_pre_hooks


@ENGINE
@pytest.mark.parametrize("name", NETS)
def test_nets_that_work_on_single_samples_pass(name, engine):
    net, x, _ = case(name)
    attached(net, engine=engine)
    net(x)


def test_dropout_passes():
    net = nn.Sequential(nn.Linear(4, 6), nn.Dropout(), nn.Linear(6, 3))
    attached(net)
    first_pass(net)


def test_an_empty_first_batch_is_enough():
    net = with_inside(Mean())
    attached(net)
    with pytest.raises(UnsupportedModuleError, match="Mean"):
        first_pass(net, torch.zeros(0, 4))


class Watching(nn.Module):
    """Notes what it is shown."""

    def __init__(self):
        super().__init__()
        self.layer, self.seen = nn.Linear(4, 3), []

    def forward(self, x):
        self.seen.append(x.detach().clone())
        return self.layer(x)


def test_the_data_are_not_used():
    net = Watching()
    x = torch.full((5, 4), 123.0)
    attached(net)
    net(x)
    shown, last = net.seen[:-1], net.seen[-1]
    assert torch.equal(last, x)
    assert len(shown) > 4
    assert not any((values == 123.0).any() for values in shown)


def lasting_state(net):
    return {
        "random": torch.get_rng_state(),
        "modes": [each.training for each in net.modules()],
        "values": {n: v.clone() for n, v in net.state_dict().items()},
        "gradients": [p.grad for p in net.parameters()],
        "asked": [p.requires_grad for p in net.parameters()],
    }


@ENGINE
@pytest.mark.parametrize("inside", [nn.Tanh(), Mean(), Remembering()])
def test_the_check_changes_nothing_that_lasts(engine, inside):
    net = with_inside(copy.deepcopy(inside))
    net[1].eval()
    attached(net, engine=engine)
    before = lasting_state(net)
    try:
        first_pass(net, torch.zeros(5, 4))
    except UnsupportedModuleError:
        assert not isinstance(inside, nn.Tanh)
    torch.testing.assert_close(lasting_state(net), before, rtol=0, atol=0)


def test_random_masks_are_those_of_an_ordinary_pass():
    net = with_inside(nn.Dropout())
    plain = copy.deepcopy(net)
    attached(net)
    x, outputs = torch.randn(5, 4), []
    for each in (net, plain):
        torch.manual_seed(3)
        outputs.append(each(x))
    torch.testing.assert_close(*outputs, rtol=0, atol=0)
