"""DP-SGD written by hand in plain PyTorch: the algorithm without the library.

    python -m examples.by_hand

Trains a logistic regression on the Adult census table: does a person earn more than
50,000 dollars?  Prints the accuracy on the test records, and ε.  Takes about ten
seconds.  Answering "no" for everyone is right in 76.4% of the cases.

``PrivacyEngine`` computes equal clipped sums and makes equal steps, as a test checks.
For real data use the engine.  It is many times faster, nobody can predict its noise,
and it rejects models and losses for which clipping does not bound the influence of a
sample.

Source: Abadi et al. (2016), arXiv:1607.00133, Algorithm 1.
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from dpsgd_explorer import accounting
from dpsgd_explorer.training.datasets.registry import load


def clipped_sum(
    model: nn.Module, inputs: Tensor, targets: Tensor, max_grad_norm: float
) -> list[Tensor]:
    """Returns the sum of the samples' clipped gradients, a tensor per parameter."""
    parameters = list(model.parameters())
    sums = [torch.zeros_like(parameter) for parameter in parameters]
    for x, y in zip(inputs, targets, strict=True):
        loss = cross_entropy(model(x[None]), y[None])
        gradients = torch.autograd.grad(loss, parameters)
        norm = torch.cat([gradient.flatten() for gradient in gradients]).norm()
        factor = (max_grad_norm / norm).clamp(max=1)
        for total, gradient in zip(sums, gradients, strict=True):
            total += factor * gradient
    return sums


def step(
    model: nn.Module,
    inputs: Tensor,
    targets: Tensor,
    *,
    batch_size: int,
    noise_multiplier: float,
    max_grad_norm: float,
    learning_rate: float,
) -> None:
    """Makes one step on a Poisson batch; its size varies, and may be 0."""
    sums = clipped_sum(model, inputs, targets, max_grad_norm)
    with torch.no_grad():
        for parameter, total in zip(model.parameters(), sums, strict=True):
            noise = noise_multiplier * max_grad_norm * torch.randn_like(total)
            # Divide by the expected size, since the size of this batch is private.
            parameter -= learning_rate * (total + noise) / batch_size


def main(steps: int = 100, batch_size: int = 256, noise_multiplier: float = 1) -> None:
    """Trains on Adult, and prints accuracy and ε."""
    torch.manual_seed(0)
    train, test = load("adult")
    model = nn.Linear(train.inputs.shape[1], 2)
    sample_rate = batch_size / len(train)
    settings = {"batch_size": batch_size, "noise_multiplier": noise_multiplier}
    for _ in range(steps):
        chosen = torch.rand(len(train)) < sample_rate  # Poisson sampling
        batch = train.inputs[chosen], train.targets[chosen]
        step(model, *batch, **settings, max_grad_norm=1.0, learning_rate=2.0)
    epsilon = accounting.epsilon(
        sample_rate=sample_rate,
        noise_multiplier=noise_multiplier,
        steps=steps,
        delta=1e-5,
    )
    accuracy = (model(test.inputs).argmax(1) == test.targets).float().mean()
    print(f"accuracy {accuracy:.1%} at ε = {accounting.round_up(epsilon)}, δ = 1e-5")


if __name__ == "__main__":
    main()
