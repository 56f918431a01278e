"""Compiled libraries that are missing: steps go on, and a line says so once."""

import shutil
import subprocess
import sys

from dpsgd_explorer.dp.backends.native.library import MISSING
from tests.test_compile_noise import ROOT

TWO_STEPS = """
import torch
from torch import nn
from dpsgd_explorer.dp import PrivacyEngine

net = nn.Sequential(nn.Linear(400, 400), nn.ReLU(), nn.Linear(400, 8))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
engine = PrivacyEngine(net, sample_size=60, batch_size=20, steps=2, noise_multiplier=1)
engine.attach(optimizer)
for (x,) in engine.poisson_loader((torch.randn(60, 400),)):
    nn.functional.cross_entropy(net(x), x[:, :8].argmax(1)).backward()
    optimizer.step()
    optimizer.zero_grad()
print(engine.steps_done)
"""


def test_a_package_without_its_libraries_says_so_once_and_trains(tmp_path):
    without = shutil.ignore_patterns("*.so", "__pycache__", "data", "web")
    shutil.copytree(
        ROOT / "dpsgd_explorer", tmp_path / "dpsgd_explorer", ignore=without
    )
    done = subprocess.run(
        [sys.executable, "-c", TWO_STEPS], capture_output=True, text=True, cwd=tmp_path
    )
    assert (done.returncode, done.stdout) == (0, "2\n"), done.stderr
    assert done.stderr == f"{MISSING}\n"
