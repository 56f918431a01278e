"""One DP-SGD step by hand in plain torch: micro-batches of one record each."""

import torch
from torch import nn
from torch.nn.functional import cross_entropy


def private_step(
    model, inputs, targets, *, bound, noise_multiplier, expected_batch_size, rate
):
    """Clips every record's gradient, add up, add noise once, divide, move."""
    parameters = list(model.parameters())
    total = [torch.zeros_like(p) for p in parameters]
    for x, y in zip(inputs, targets, strict=True):  # none if the batch is empty
        model.zero_grad()  # backward adds: nothing of the last record may stay
        cross_entropy(model(x[None]), y[None]).backward()
        own = [p.grad for p in parameters]
        length = torch.stack([g.norm() for g in own]).norm()  # of all tensors together
        factor = min(1.0, bound / float(length)) if length > 0 else 1.0
        for added, g in zip(total, own, strict=True):
            added += factor * g
    with torch.no_grad():
        for p, clipped_sum in zip(parameters, total, strict=True):
            noise = torch.randn_like(p) * noise_multiplier * bound  # every entry's own
            p -= rate * (clipped_sum + noise) / expected_batch_size
    model.zero_grad()


if __name__ == "__main__":
    torch.manual_seed(7)
    inputs, targets = torch.randn(400, 20), torch.randint(3, (400,))
    model = nn.Sequential(nn.Linear(20, 16), nn.Tanh(), nn.Linear(16, 3))
    for _ in range(20):
        drawn = torch.rand(400) < 0.1  # each record by a coin of its own
        private_step(
            model,
            inputs[drawn],
            targets[drawn],
            bound=0.5,
            noise_multiplier=1.0,
            expected_batch_size=40,  # and never the number that was drawn
            rate=1.0,
        )
    print(f"20 steps; the first weight is {float(model[0].weight[0, 0].detach()):.3f}")
