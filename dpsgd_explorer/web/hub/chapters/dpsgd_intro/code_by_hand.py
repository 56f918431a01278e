"""One DP-SGD step in plain torch."""

import torch


def private_step(model, loss, batch, C, sigma, rate, expected):
    """Takes one private step with a batch of (x, y)."""
    weights = list(model.parameters())
    total = [torch.zeros_like(w) for w in weights]
    for x, y in batch:  # one record at a time
        error = loss(model(x[None]), y[None])
        g = torch.autograd.grad(error, weights)
        size = torch.cat([part.flatten() for part in g]).norm()
        for t, part in zip(total, g, strict=True):
            t += part * min(1.0, C / (float(size) or C))  # clip, then add
    with torch.no_grad():
        for w, t in zip(weights, total, strict=True):
            noise = sigma * C * torch.randn_like(w)  # once per step
            w -= rate * (t + noise) / expected  # divide, and move
