"""Exercise: norms of per-sample gradients that are never stored."""

# %% [markdown]
# For a linear layer, record n has the gradient g[n] a[n]ᵀ: its output's gradient
# times its input. The outer product is large, its norm is cheap.

# %%
import torch

torch.manual_seed(7)
layer = torch.nn.Linear(20, 6, bias=False)
inputs, targets, bound = torch.randn(8, 20), torch.randint(6, (8,)), 0.5
outputs = layer(inputs)
loss = torch.nn.functional.cross_entropy(outputs, targets, reduction="sum")
(highway,) = torch.autograd.grad(loss, outputs)  # one row for each record

# Your turn: all per-sample gradients, shape (8, 6, 20).
stored = torch.einsum("ni,nj->nij", highway, inputs)

# Your turn: their norms, from ``highway`` and ``inputs`` alone.
norms = highway.norm(dim=1) * inputs.norm(dim=1)

# %%
assert stored.shape == (8, 6, 20)
assert torch.allclose(norms, stored.flatten(1).norm(dim=1), rtol=1e-5)

# %% [markdown]
# The clipped sum is Σ f[n] g[n] a[n]ᵀ: one product of two matrices, once the rows of
# one of them are multiplied by the factors.

# %%
factors = (bound / norms).clamp(max=1.0)

# Your turn: the clipped sum without the stored gradients.
clipped_sum = (factors[:, None] * highway).T @ inputs

# %%
assert torch.allclose(clipped_sum, (factors[:, None, None] * stored).sum(0), atol=1e-6)
for n in range(8):  # one backward pass for each record
    alone = torch.nn.functional.cross_entropy(
        layer(inputs[n : n + 1]), targets[n][None]
    )
    (gradient,) = torch.autograd.grad(alone, layer.weight)
    assert torch.allclose(gradient, stored[n], atol=1e-6)
print("norms", [round(float(norm), 2) for norm in norms])
