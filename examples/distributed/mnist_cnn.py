"""A CNN on MNIST with DP-SGD, trained by several processes.

    torchrun --nproc-per-node 2 -m examples.distributed.mnist_cnn

The only change to a loop for one process is the argument ``group``.  The example runs
on CPUs.  For GPUs, give each rank its own device, and use the backend "nccl".
"""

import argparse

import torch
import torch.distributed as dist
import torch.nn.functional as F

from dpsgd_explorer.dp import PrivacyEngine
from dpsgd_explorer.training.datasets.registry import load
from dpsgd_explorer.training.models import tanh_cnn


def main(steps: int) -> None:
    """Trains, and prints accuracy and ε on rank 0."""
    dist.init_process_group("gloo")
    torch.manual_seed(0)  # every rank starts from the same parameters
    torch.set_num_threads(1)
    model = tanh_cnn()
    train, test = load("mnist")
    engine = PrivacyEngine(
        model,
        sample_size=len(train),
        batch_size=512,
        steps=steps,
        target_epsilon=3.0,
        target_delta=1e-5,
        max_grad_norm=0.1,
        group=dist.group.WORLD,
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=2.0)
    engine.attach(optimizer)
    for x, y in engine.poisson_loader((train.inputs, train.targets)).all_epochs():
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
        optimizer.zero_grad()
    model.eval()
    with torch.no_grad():
        right = (model(test.inputs).argmax(1) == test.targets).float().mean()
    if dist.get_rank() == 0:
        epsilon = engine.get_epsilon()
        print(f"{dist.get_world_size()} ranks, {engine.steps_done} steps:")
        print(f"accuracy {float(right):.2%} at epsilon {epsilon:.3f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=150)
    main(parser.parse_args().steps)
