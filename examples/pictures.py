"""Private image classification: a small convolutional network on MNIST.

    python -m examples.pictures

Trains with DP-SGD until ε = 3 is spent.  Prints, after each epoch, the accuracy on the
10,000 test images and the ε spent so far.  Takes about a minute on two cores.

Source of the network: Papernot et al. (2020), arXiv:2007.14191.
"""

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from dpsgd_explorer import accounting
from dpsgd_explorer.dp import PrivacyEngine
from dpsgd_explorer.training.datasets.registry import Records, load


def network() -> nn.Module:
    """Returns the network: images (B, 1, 28, 28) to scores (B, 10)."""
    return nn.Sequential(
        nn.Conv2d(1, 16, kernel_size=8, stride=2, padding=3),
        nn.Tanh(),  # bounded activations lose less accuracy to clipping than ReLU
        nn.MaxPool2d(2, stride=1),
        nn.Conv2d(16, 32, kernel_size=4, stride=2),
        nn.Tanh(),
        nn.MaxPool2d(2, stride=1),
        nn.Flatten(),
        nn.Linear(32 * 4 * 4, 32),
        nn.Tanh(),
        nn.Linear(32, 10),
    )


def accuracy(model: nn.Module, records: Records) -> float:
    """Returns the share of correct answers; not private for training records."""
    with torch.no_grad():
        answers = model(records.inputs).argmax(1)
    return (answers == records.targets).float().mean().item()


def main(epochs: int = 3, target_epsilon: float = 3.0) -> None:
    """Trains, and prints accuracy and ε after each epoch."""
    torch.manual_seed(0)
    train, test = load("mnist")
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0, momentum=0.9)
    engine = PrivacyEngine(
        model,
        batch_size=512,
        sample_size=len(train),
        epochs=epochs,
        target_epsilon=target_epsilon,
        target_delta=1e-5,
        max_grad_norm=0.1,
    )
    engine.attach(optimizer)
    loader = engine.poisson_loader((train.inputs, train.targets))
    for epoch in range(epochs):
        for images, labels in loader:
            cross_entropy(model(images), labels).backward()
            optimizer.step()
            optimizer.zero_grad()
        epsilon = accounting.round_up(engine.get_epsilon())
        print(
            f"epoch {epoch + 1}: accuracy {accuracy(model, test):.1%} "
            f"at ε = {epsilon}, δ = 1e-5"
        )


if __name__ == "__main__":
    main()
