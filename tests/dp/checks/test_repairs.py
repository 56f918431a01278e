"""What make_private_ready changes, what it leaves alone, and what it says."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from dpsgd_explorer.dp import make_private_ready
from dpsgd_explorer.errors import UnsupportedModuleError
from tests.dp.nets import NETS, attached, case
from tools.unsafe_models import GALLERY
from tools.write_sharp_edges_page import refusal

BATCH_NORM_TITLES = {each.title for each in GALLERY[:3]}


def told_of(model):
    told = []
    return make_private_ready(model, tell=told.append), told


def image_net(norm):
    return nn.Sequential(nn.Conv2d(1, 8, 3), norm, nn.ReLU(), nn.Flatten(),
                         nn.Linear(8 * 16, 3))  # fmt: skip


def one_step(net, x):
    engine, optimizer = attached(net)
    F.cross_entropy(net(x), torch.randint(0, 3, (len(x),))).backward()
    optimizer.step()
    engine.detach()


IMAGE_NORMS = {
    "batch norm": nn.BatchNorm2d(8),
    "synchronised": nn.SyncBatchNorm(8),
    "not affine": nn.BatchNorm2d(8, affine=False),
    "instance norm": nn.InstanceNorm2d(8, affine=True, track_running_stats=True),
}


@pytest.mark.parametrize("norm", IMAGE_NORMS.values(), ids=IMAGE_NORMS)
def test_what_was_refused_trains(norm):
    net, x = image_net(copy.deepcopy(norm)), torch.randn(4, 1, 6, 6)
    with pytest.raises(UnsupportedModuleError):
        one_step(net, x)
    net, told = told_of(net)
    assert len(told) == 1
    assert told[0].startswith(f"1 ({type(norm).__name__}): ")
    one_step(net, x)


def test_group_norm_keeps_scale_shift_and_what_is_frozen():
    norm = nn.BatchNorm2d(12, eps=1e-3).double()
    nn.init.normal_(norm.weight)
    norm.bias.requires_grad_(False)
    net, _ = told_of(nn.Sequential(norm).eval())
    new = net[0]
    assert isinstance(new, nn.GroupNorm)
    assert (new.num_groups, new.num_channels, new.eps) == (6, 12, 1e-3)
    assert torch.equal(new.weight, norm.weight)
    assert (new.weight.requires_grad, new.bias.requires_grad) == (True, False)
    assert not new.training


@pytest.mark.parametrize("channels", [1, 2, 7, 8, 64, 96])
def test_no_value_is_normalised_by_itself_alone(channels):
    for kind, shape in ((nn.BatchNorm1d, (3,)), (nn.BatchNorm2d, (3,))):
        net, _ = told_of(nn.Sequential(kind(channels)))
        groups = net[0].num_groups
        assert channels % groups == 0
        assert channels // groups > 1 or groups == 1
        assert groups <= 32
        x = torch.randn(*shape, channels, *([1, 1] if kind is nn.BatchNorm2d else []))
        assert channels == 1 or net(x).abs().max() > 0.1


def test_a_layer_in_two_places_stays_one_layer():
    norm = nn.BatchNorm1d(4)
    net, told = told_of(nn.ModuleDict({"a": norm, "b": nn.Sequential(norm)}))
    assert len(told) == 1
    assert isinstance(net["a"], nn.GroupNorm)
    assert net["a"] is net["b"][0]


def test_a_model_that_is_a_layer_is_returned_new():
    new, told = told_of(nn.BatchNorm1d(4))
    assert isinstance(new, nn.GroupNorm)
    assert told[0].startswith("the model (BatchNorm1d)")


def test_embeddings_lose_what_looks_at_the_batch():
    table = nn.Embedding(5, 3, scale_grad_by_freq=True, max_norm=1.0)
    net = nn.Sequential(table, nn.Flatten(), nn.Linear(6, 3))
    with pytest.raises(UnsupportedModuleError, match="max_norm"):
        attached(net)
    _, told = told_of(net)
    assert "scale_grad_by_freq switched off and max_norm switched off" in told[0]
    one_step(net, torch.randint(0, 5, (4, 2)))


@pytest.mark.parametrize("name", NETS)
def test_a_sound_model_is_left_alone(name, capsys):
    net, _, _ = case(name)
    before = {n: (type(m), id(m)) for n, m in net.named_modules()}
    assert make_private_ready(net) is net
    assert {n: (type(m), id(m)) for n, m in net.named_modules()} == before
    assert capsys.readouterr().out == "Nothing to repair.\n"


def test_each_model_of_the_gallery_is_refused():
    assert len(GALLERY) == len({each.title for each in GALLERY})
    assert all(refusal(each) for each in GALLERY)


@pytest.mark.parametrize("unsafe", GALLERY, ids=lambda each: each.title)
def test_a_repair_helps_where_there_is_one_and_hides_nothing_elsewhere(unsafe):
    helped = refusal(unsafe, repaired=True) == ""
    assert helped == (unsafe.title in BATCH_NORM_TITLES)


def test_a_layer_with_two_names_is_replaced_under_both():
    model = nn.Module()
    model.first = model.second = nn.BatchNorm1d(6)
    model.rows = nn.Linear(4, 6)
    make_private_ready(model, tell=lambda line: None)
    assert isinstance(model.first, nn.GroupNorm)
    assert model.second is model.first
