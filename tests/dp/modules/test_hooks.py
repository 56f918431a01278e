"""An engine's hooks are called as they are, also under ``torch.compile``."""

import subprocess
import sys
from copy import deepcopy

import torch
from torch import nn

from dpsgd_explorer.dp.modules.hooks import ModuleHook

# In a process of its own: other tests here have loaded torch's compiler.
IMPORTS = """
import sys, torch
by_torch = set(sys.modules)
import dpsgd_explorer.dp
slow = {"torch._dynamo", "torch._inductor", "torch.distributed.fsdp", "sympy"}
loaded = slow & set(sys.modules) - by_torch
assert not loaded, f"dpsgd_explorer.dp loads {sorted(loaded)}"
"""
COMPILES_AFTERWARDS = """
from dpsgd_explorer.dp.modules.hooks import ModuleHook
traced = []
def double(module, args, output):
    traced.append(torch.compiler.is_compiling())
    return 2 * output
net, x = torch.nn.Linear(3, 4), torch.randn(5, 3)
expected = 2 * net(x)
net.register_forward_hook(ModuleHook(double))
compiled = torch.compile(net, backend="eager")
for _ in range(2):
    torch.testing.assert_close(compiled(x), expected)
assert traced == [False, False], traced
"""


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


def test_the_package_loads_no_compiler_and_one_loaded_later_traces_no_hook():
    code = IMPORTS + COMPILES_AFTERWARDS
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
