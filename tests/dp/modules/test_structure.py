"""A module's structure holds as long as nothing in it changes that a pass may show."""

import pytest
import torch
from torch import nn

from dpsgd_explorer.dp.modules.forward_patch import ForwardPatch
from dpsgd_explorer.dp.modules.hooks import ModuleHook
from dpsgd_explorer.dp.modules.structure import Structure


def hook(module, *given):
    """Do nothing."""


def other_hook(module, *given):
    """Do nothing, as another function."""


def net():
    return nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))


def with_engine(module):
    """Return the module with an engine's hooks, and their handles."""
    handles = [module[0].register_forward_hook(ModuleHook(hook)) for _ in range(2)]
    return module, handles


def test_a_hook_shows_as_long_as_it_is_there():
    module, _ = with_engine(net())
    structure = Structure(module)
    for place in ("forward_pre_hook", "forward_hook", "full_backward_hook"):
        for layer in (module, module[0], module[1]):
            handle = getattr(layer, f"register_{place}")(hook)
            assert not structure.holds()
            handle.remove()
            assert structure.holds()


def test_a_hook_that_took_the_place_of_another_shows():
    module, _ = with_engine(net())
    handle = module[0].register_forward_hook(hook)
    structure = Structure(module)
    handle.remove()
    assert not structure.holds()
    handle = module[0].register_forward_hook(other_hook)
    assert not structure.holds()
    handle.remove()
    module[0].register_forward_hook(hook)
    assert structure.holds()


def test_a_hook_in_place_of_an_engines_shows():
    module, [first, _] = with_engine(net())
    structure = Structure(module)
    first.remove()
    module[0].register_forward_hook(hook)
    assert not structure.holds()


def test_hooks_of_engines_come_and_go():
    module, handles = with_engine(net())
    handle = module[0].register_forward_hook(hook)
    structure = Structure(module)
    for engines_hook in handles:
        engines_hook.remove()
        assert structure.holds()
    module[0].register_forward_pre_hook(ModuleHook(other_hook))
    assert structure.holds()
    handle.remove()
    assert not structure.holds()


CHANGES = {
    "a layer": lambda module: module.__setitem__(1, nn.Tanh()),
    "a layer more": lambda module: module.append(nn.Tanh()),
    "a parameter": lambda module: setattr(
        module[0], "bias", nn.Parameter(torch.zeros(4))
    ),
    "what is trained": lambda module: module[2].weight.requires_grad_(False),
    "a forward": lambda module: setattr(module[1], "forward", torch.sigmoid),
    "a kind": lambda module: setattr(module[1], "__class__", nn.Tanh),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_shows(change):
    module, _ = with_engine(net())
    structure = Structure(module)
    assert structure.holds()
    CHANGES[change](module)
    assert not structure.holds()


def test_a_hook_on_all_modules_shows():
    structure = Structure(net())
    handle = nn.modules.module.register_module_forward_hook(hook)
    assert not structure.holds()
    handle.remove()
    assert structure.holds()


def test_an_engines_patch_does_not_show_but_a_forward_in_its_place():
    module = net()
    structure = Structure(module)
    patch = ForwardPatch(module[1], lambda own, args, kwargs: own(*args, **kwargs))
    assert structure.holds()
    module[1].forward = torch.sigmoid
    assert not structure.holds()
    module[1].forward = patch
    patch.remove()
    assert structure.holds()
