"""An engine's hooks are called as they are, also under ``torch.compile``."""

from copy import deepcopy

import torch
from torch import nn

from dpsgd_explorer.dp.modules.hooks import ModuleHook


def test_the_compiler_calls_a_hook_and_does_not_trace_it():
    traced = []

    def double(module, args, output):
        traced.append(torch.compiler.is_compiling())
        return 2 * output

    net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    x = torch.randn(5, 3)
    expected = 2 * net(x)
    net.register_forward_hook(ModuleHook(double))
    compiled = torch.compile(net, backend="eager")
    for _ in range(2):
        torch.testing.assert_close(compiled(x), expected)
    assert traced == [False, False]


def test_the_hook_of_a_copy_does_nothing():
    net = nn.Linear(3, 4)
    x = torch.randn(5, 3)
    expected = net(x)
    net.register_forward_hook(ModuleHook(lambda module, args, output: 2 * output))
    torch.testing.assert_close(deepcopy(net)(x), expected)
    torch.testing.assert_close(net(x), 2 * expected)
