"""A generator of digits whose discriminator is trained with DP-SGD (a private GAN).

    python -m examples.gan

The discriminator sees 60,000 private pictures of digits (MNIST, 14 x 14 pixels) and
pictures of the generator.  Only the gradient of the real pictures needs clipping and
noise: the generator learns from the discriminator alone, so its pictures cost no
privacy, and their passes run under ``engine.public()``.  Prints ε, and the accuracy on
real digits of a classifier that saw generated ones only.  Takes about a minute and a
half on two cores.  Guessing is right in 11% of the cases.

Source: Xie et al. (2018), arXiv:1802.06739 (DPGAN).
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import avg_pool2d, cross_entropy, one_hot
from torch.nn.functional import binary_cross_entropy_with_logits as logistic_loss

from dpsgd_explorer import accounting
from dpsgd_explorer.dp import PrivacyEngine
from dpsgd_explorer.training.datasets.registry import Records, load

BATCH_SIZE = 200
LEARNING_RATE = 2e-3
NOISE_SIZE, CLASSES, PIXELS = 32, 10, 14 * 14
READER_STEPS = 300


class Generator(nn.Module):
    """Draws pictures of given digits."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(NOISE_SIZE + CLASSES, 256),
            nn.ReLU(),
            nn.Linear(256, PIXELS),
            nn.Sigmoid(),
        )

    def forward(self, digits: Tensor) -> Tensor:
        """Returns a picture (B, 196) for each digit (B,)."""
        noise = torch.randn(len(digits), NOISE_SIZE)
        return self.layers(torch.cat([noise, one_hot(digits, CLASSES)], dim=1))


class Discriminator(nn.Module):
    """Says how real the picture of a digit looks."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(PIXELS + CLASSES, 128), nn.LeakyReLU(0.2), nn.Linear(128, 1)
        )

    def forward(self, pictures: Tensor, digits: Tensor) -> Tensor:
        """Returns a logit (B,) for each picture (B, 196)."""
        rows = torch.cat([pictures, one_hot(digits, CLASSES)], dim=1)
        return self.layers(rows).squeeze(1)


def train(
    pictures: Tensor, digits: Tensor, epochs: int, target_epsilon: float
) -> tuple[Generator, PrivacyEngine]:
    """Returns the generator, and the engine that has counted the steps."""
    generator, discriminator = Generator(), Discriminator()
    adam = {"lr": LEARNING_RATE, "betas": (0.5, 0.9)}
    of_generator = torch.optim.Adam(generator.parameters(), **adam)
    of_discriminator = torch.optim.Adam(discriminator.parameters(), **adam)
    engine = PrivacyEngine(
        discriminator,
        batch_size=BATCH_SIZE,
        sample_size=len(pictures),
        epochs=epochs,
        target_epsilon=target_epsilon,
        target_delta=1e-5,
    )
    engine.attach(of_discriminator)
    for real, labels in engine.poisson_loader((pictures, digits)).all_epochs():
        drawn = torch.randint(CLASSES, (BATCH_SIZE,))
        fake = generator(drawn)

        logits = discriminator(real, labels)
        logistic_loss(logits, torch.ones_like(logits)).backward()
        with engine.public():
            logits = discriminator(fake.detach(), drawn)
            logistic_loss(logits, torch.zeros_like(logits)).backward()
        of_discriminator.step()
        of_discriminator.zero_grad()

        with engine.public():
            logits = discriminator(fake, drawn)
            logistic_loss(logits, torch.ones_like(logits)).backward()
        of_generator.step()
        of_generator.zero_grad()
        of_discriminator.zero_grad()  # also what the generator's pass left there
    return generator, engine


def accuracy_of_a_reader(
    generator: Generator, pictures: Tensor, digits: Tensor
) -> float:
    """Returns the accuracy on real digits of a model trained on generated ones."""
    reader = nn.Sequential(nn.Linear(PIXELS, 128), nn.ReLU(), nn.Linear(128, CLASSES))
    optimizer = torch.optim.Adam(reader.parameters(), lr=1e-3)
    for _ in range(READER_STEPS):
        drawn = torch.randint(CLASSES, (256,))
        with torch.no_grad():
            generated = generator(drawn)
        cross_entropy(reader(generated), drawn).backward()
        optimizer.step()
        optimizer.zero_grad()
    with torch.no_grad():
        answers = reader(pictures).argmax(1)
    return (answers == digits).float().mean().item()


def halved(records: Records) -> Tensor:
    """Returns the pictures with 14 x 14 instead of 28 x 28 pixels, (N, 196)."""
    return avg_pool2d(records.inputs, 2).flatten(1)


def main(epochs: int = 12, target_epsilon: float = 10.0) -> None:
    """Trains both networks, and prints what the generated digits are worth."""
    torch.manual_seed(0)
    private, test = load("mnist")
    generator, engine = train(halved(private), private.targets, epochs, target_epsilon)
    accuracy = accuracy_of_a_reader(generator, halved(test), test.targets)
    epsilon = accounting.round_up(engine.get_epsilon())
    print(f"accuracy {accuracy:.1%} at ε = {epsilon}, δ = 1e-5")


if __name__ == "__main__":
    main()
