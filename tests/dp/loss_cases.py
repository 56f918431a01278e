"""Losses that keep the samples of a batch apart, and losses that do not."""

from functools import partial

import torch
import torch.nn.functional as F
from torch import nn

from dpsgd_explorer.dp import per_sample_mean
from tests.dp.nets import POISSON, attached

FEATURES, CLASSES, TOKENS = 4, 5, 3
STEPS = 3
WEIGHTS = torch.tensor([1.0, 1.0, 1.0, 1.0, 50.0])


class Tokens(nn.Module):
    """Scores for each token, [B, T, V]."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(FEATURES, CLASSES)

    def forward(self, x):
        return self.layer(x.unsqueeze(1) * torch.arange(1.0, TOKENS + 1)[:, None])


def scores():
    return nn.Linear(FEATURES, CLASSES)


def classes(size):
    return torch.randint(0, CLASSES, (size,))


def numbers(size):
    return torch.rand(size, CLASSES)


def token_classes(size):
    return torch.randint(0, CLASSES, (size, TOKENS))


def some_ignored(size):
    """As many tokens count as there are in a record: 1, 2 or 3."""
    lengths = 1 + torch.arange(size)[:, None] % TOKENS
    ignored = torch.arange(TOKENS) >= lengths
    return token_classes(size).masked_fill(ignored, -100)


def distributions(size):
    return torch.softmax(torch.randn(size, CLASSES), 1)


def trained(make, draw, loss, *, steps=STEPS, data_size=40, **options):
    """Return the engine after some private steps on batches of about ten."""
    torch.manual_seed(0)
    net = make()
    sizes = {"batch_size": 10, "sample_size": data_size, "steps": steps}
    engine, optimizer = attached(net, **POISSON | sizes | options)
    try:
        data = torch.randn(data_size, FEATURES), draw(data_size)
        for x, y in engine.poisson_loader(data).all_epochs():
            loss(net(x), y).backward()
            optimizer.step()
            optimizer.zero_grad()
    finally:
        engine.detach()
    return engine


def own_cross_entropy(out, y):
    """As somebody would write it down."""
    return -out.log_softmax(1)[torch.arange(len(y)), y].mean()


def per_sample_focal(out, y):
    losses = F.cross_entropy(out, y, reduction="none")
    return ((1 - torch.exp(-losses)) ** 2 * losses).mean()


def masked_tokens(out, y):
    losses = F.cross_entropy(out.transpose(1, 2), y, reduction="none")
    return per_sample_mean(losses, y != -100)


def by_name(losses):
    """Return {name: (module, targets, loss)} of {(module, targets): {name: loss}}."""
    return {
        name: (*inputs, loss)
        for inputs, named in losses.items()
        for name, loss in named.items()
    }


ORDINARY = by_name(
    {
        (scores, classes): {
            "cross entropy": F.cross_entropy,
            "label smoothing": partial(F.cross_entropy, label_smoothing=0.1),
            "NLL on log-softmax": lambda out, y: F.nll_loss(
                F.log_softmax(out, dim=1), y
            ),
            "NLL by hand": own_cross_entropy,
            "margins of classes": F.multi_margin_loss,
            "margins of weighted classes": partial(F.multi_margin_loss, weight=WEIGHTS),
            "losses, then their mean": lambda out, y: F.cross_entropy(
                out, y, reduction="none"
            ).mean(),
            "a sum over the number of samples": lambda out, y: (
                F.cross_entropy(out, y, reduction="sum") / len(y)
            ),
            "focal": per_sample_focal,
            "a weighted sum of two": lambda out, y: (
                F.cross_entropy(out, y) + 0.1 * out.pow(2).mean()
            ),
            "a mean of three": lambda out, y: torch.stack(
                [F.cross_entropy(out, y), out.abs().mean(), out.tanh().mean()]
            ).mean(),
            "class weights by per_sample_mean": lambda out, y: per_sample_mean(
                F.cross_entropy(out, y, weight=WEIGHTS, reduction="none")
            ),
        },
        (scores, distributions): {
            "soft labels": F.cross_entropy,
            "KL": lambda out, y: F.kl_div(out.log_softmax(1), y, reduction="batchmean"),
        },
        (scores, numbers): {
            "BCE with logits": F.binary_cross_entropy_with_logits,
            "BCE": lambda out, y: F.binary_cross_entropy(out.sigmoid(), y),
            "BCE, weights of classes": partial(
                F.binary_cross_entropy_with_logits, weight=WEIGHTS, pos_weight=WEIGHTS
            ),
            "BCE, the same weights in each row": lambda out, y: F.binary_cross_entropy(
                out.sigmoid(), y, WEIGHTS.expand(len(y), -1)
            ),
            "MSE": F.mse_loss,
            "MSE by hand": lambda out, y: ((out - y) ** 2).mean(),
            "L1": F.l1_loss,
            "smooth L1": F.smooth_l1_loss,
            "Huber": lambda out, y: F.huber_loss(out, y, delta=0.5),
        },
        (scores, lambda size: distributions(size).log()): {
            "KL of logarithms": lambda out, y: F.kl_div(
                out.log_softmax(1), y, reduction="batchmean", log_target=True
            ),
        },
        (Tokens, token_classes): {
            "tokens, [B, V, T]": lambda out, y: F.cross_entropy(out.transpose(1, 2), y),
            "tokens, [B T, V]": lambda out, y: F.cross_entropy(
                out.flatten(0, 1), y.flatten()
            ),
            "shifted tokens": lambda out, y: F.cross_entropy(
                out[:, :-1].reshape(-1, CLASSES), y[:, 1:].reshape(-1)
            ),
            "all tokens by per_sample_mean": lambda out, y: per_sample_mean(
                F.cross_entropy(out.transpose(1, 2), y, reduction="none")
            ),
        },
        (Tokens, some_ignored): {
            "tokens by per_sample_mean": masked_tokens,
        },
    }
)
"""Name: (module, targets, loss); each is a mean of a term for each sample."""

ORDINARY_SUMS = by_name(
    {
        (scores, classes): {
            "cross entropy": partial(F.cross_entropy, reduction="sum"),
            "class weights": partial(F.cross_entropy, weight=WEIGHTS, reduction="sum"),
            "over the expected size": lambda out, y: (
                F.cross_entropy(out, y, reduction="sum") / 10
            ),
        },
        (Tokens, some_ignored): {
            "ignored tokens": lambda out, y: F.cross_entropy(
                out.transpose(1, 2), y, reduction="sum"
            ),
        },
        (scores, numbers): {
            "squares": lambda out, y: F.mse_loss(out, y, reduction="none").sum(1).sum(),
        },
    }
)


def contrastive(out, y):
    z = F.normalize(out, dim=1)
    return F.cross_entropy(z @ z.T, torch.arange(len(y)))


def contrastive_by_sample(out, y):
    z = F.normalize(out, dim=1)
    return per_sample_mean(
        F.cross_entropy(z @ z.T, torch.arange(len(y)), reduction="none")
    )


def all_pairs(out, y):
    return (out.unsqueeze(0) - out.unsqueeze(1)).pow(2).mean()


def focal_over_the_batch(out, y):
    losses = F.cross_entropy(out, y, reduction="none")
    weights = (1 - torch.exp(-losses)) ** 2
    return (weights * losses).sum() / weights.sum()


def focal_of_constants(out, y):
    losses = F.cross_entropy(out, y, reduction="none")
    weights = ((1 - torch.exp(-losses)) ** 2).detach()
    return (weights * losses).sum() / weights.sum()


def balance(out, y):
    """A mixture of experts wants them equally used, over the batch."""
    chances = out.softmax(1)
    used = F.one_hot(out.argmax(1), CLASSES).float().mean(0)
    return F.cross_entropy(out, y) + 0.01 * (chances.mean(0) * used).sum()


def mixup_of_outputs(out, y):
    return F.cross_entropy(0.7 * out + 0.3 * out.roll(1, 0), y)


def mixup_of_losses(out, y):
    share = float(torch.rand(()))
    first, second = F.cross_entropy(out, y), F.cross_entropy(out, y.roll(1, 0))
    return share * first + (1 - share) * second


def weighted_targets(out, y):
    """One weight for each entry, so of the shape that soft targets have."""
    weights = F.one_hot(y, CLASSES) * (1 + y[:, None])
    return -(out.log_softmax(1) * (weights * len(y) / weights.sum())).mean()


def hard_examples(out, y):
    return F.cross_entropy(out, y, reduction="none").topk(1).values.mean()


def worst_half(out, y):
    """The conditional value at risk, with the median of the batch as its threshold."""
    losses = F.cross_entropy(out, y, reduction="none")
    threshold = losses.detach().median()
    return threshold + 2 * F.relu(losses - threshold).mean()


def trimmed(out, y):
    losses = F.cross_entropy(out, y, reduction="none")
    return torch.where(losses < losses.detach().median() + 0.1, losses, 0.0).mean()


def median(losses):
    """Return the median of the batch, without a gradient."""
    return losses.detach().median()


def limited(limit):
    """Return the mean of losses after ``limit(losses, median of the batch)``."""

    def loss(out, y):
        losses = F.cross_entropy(out, y, reduction="none")
        return limit(losses, median(losses)).mean()

    return loss


def hard_and_easy(out, y):
    losses = F.cross_entropy(out, y, reduction="none")
    hard = losses > losses.detach().mean()
    return (torch.where(hard, losses, 0.0) + torch.where(~hard, losses**2, 0.0)).mean()


def share_of_the_batch(y):
    """Return a weight for each record, [B, C], of mean 1 over the batch."""
    return (y / y.mean(0)).clone()


def adaptive_charbonnier(out, y):
    squares = (out - y) ** 2
    return torch.sqrt(squares + squares.detach().mean()).mean()


def adaptive_charbonnier_of_a_number(out, y):
    squares = (out - y) ** 2
    return torch.sqrt(squares + squares.detach().mean().item()).mean()


def two_targets(out, y):
    return ((out - y) * (out - out.detach().mean(0))).mean()


def larger_of_two_targets(out, y):
    return torch.maximum(out - y, out - out.detach().mean(0)).mean()


def balanced_classes(out, y):
    counts = torch.bincount(y, minlength=CLASSES).clamp(min=1)
    losses = F.cross_entropy(out, y, weight=1 / counts, reduction="none")
    return losses.mean()


def masked_mean(out, y):
    losses = F.cross_entropy(out.transpose(1, 2), y, reduction="none")
    mask = (y != -100).float()
    return (losses * mask).sum() / mask.sum()


def items_in_batch(out, y):
    losses = F.cross_entropy(out.transpose(1, 2), y, reduction="sum")
    return losses / int((y != -100).sum())


def items_after_the_mean(out, y):
    losses = F.cross_entropy(out.transpose(1, 2), y, reduction="none")
    return losses.mean() * (y.numel() / int((y != -100).sum()))


PLANTED = by_name(
    {
        (scores, classes): {
            "class weights": partial(F.cross_entropy, weight=WEIGHTS),
            "another ignore_index": lambda out, y: F.nll_loss(
                out.log_softmax(1), y, ignore_index=2
            ),
            "contrastive": contrastive,
            "contrastive, by per_sample_mean": contrastive_by_sample,
            "all pairs": all_pairs,
            "focal over the batch": focal_over_the_batch,
            "focal over the batch, constants": focal_of_constants,
            "balance of experts": balance,
            "the batch's mean taken away": lambda out, y: F.cross_entropy(
                out - out.mean(0), y
            ),
            "the batch's constant mean taken away": lambda out, y: F.cross_entropy(
                out - out.detach().mean(0), y
            ),
            "mixup of outputs": mixup_of_outputs,
            "mixup of losses": mixup_of_losses,
            "weights of the shape of soft targets": weighted_targets,
            "hard examples": hard_examples,
            "classes balanced by the batch": balanced_classes,
            "flooding": lambda out, y: (F.cross_entropy(out, y) - 0.1).abs() + 0.1,
            "variance of the batch": lambda out, y: out.var(0).sum(),
            "square of a mean": lambda out, y: out.mean(0).pow(2).sum(),
            "softmax over the batch": lambda out, y: out.log_softmax(0).mean(),
            "logsumexp over the batch": lambda out, y: out.logsumexp(0).mean(),
            "normalised by the largest": lambda out, y: F.cross_entropy(
                out / out.detach().abs().max(), y
            ),
            "some of the samples": lambda out, y: F.cross_entropy(
                out[: 1 + len(y) // 2], y[: 1 + len(y) // 2]
            ),
            "worst half of the batch": worst_half,
            "trimmed at the batch's median": trimmed,
            "hard and easy ones by the batch's mean": hard_and_easy,
            "limited by a tensor of the batch": limited(
                lambda losses, middle: losses.clamp(max=middle)
            ),
            "limited at a number of the batch": limited(
                lambda losses, middle: F.hardtanh(losses, 0.0, middle.item())
            ),
            "a sum weighed by the batch": limited(
                lambda losses, middle: torch.add(losses, losses, alpha=middle.item())
            ),
            "a difference weighed by the batch": limited(
                lambda losses, middle: torch.rsub(losses, 1, alpha=middle.item())
            ),
            "a norm whose order is of the batch": lambda out, y: (
                torch.linalg.vector_norm(out, 1 + out.std().item(), dim=1).mean()
            ),
            "deviation from the batch's mean loss": lambda out, y: (
                (
                    (losses := F.cross_entropy(out, y, reduction="none"))
                    - losses.detach().mean()
                )
                .abs()
                .mean()
            ),
            "scores scaled by the batch": lambda out, y: F.cross_entropy(
                out * share_of_the_batch(1.0 + F.one_hot(y, CLASSES)), y
            ),
            "weights of samples": lambda out, y: (
                F.cross_entropy(out, y, reduction="none") * y / y.float().mean()
            ).mean(),
            "a sum where a mean is expected": partial(F.cross_entropy, reduction="sum"),
        },
        (Tokens, some_ignored): {
            "ignore_index": lambda out, y: F.cross_entropy(out.transpose(1, 2), y),
            "ignore_index, flat": lambda out, y: F.cross_entropy(
                out.flatten(0, 1), y.flatten()
            ),
            "label smoothing and ignore_index": lambda out, y: F.cross_entropy(
                out.transpose(1, 2), y, label_smoothing=0.1
            ),
            "num_items_in_batch": items_in_batch,
            "num_items_in_batch after the mean": items_after_the_mean,
            "a masked mean": masked_mean,
        },
        (scores, numbers): {
            "adaptive Charbonnier": adaptive_charbonnier,
            "adaptive Charbonnier, a number": adaptive_charbonnier_of_a_number,
            "two targets": two_targets,
            "the larger of two targets": larger_of_two_targets,
            "squares over the batch's variance": lambda out, y: (
                (out - y) ** 2 / y.var(0)
            ).mean(),
            "a quantile of the batch": lambda out, y: torch.maximum(
                (share := y.mean().item()) * (y - out), (share - 1) * (y - out)
            ).mean(),
            "activations weighed by the batch": lambda out, y: (
                out.sigmoid() * share_of_the_batch(y)
            ).mean(),
            "an inner product with weights": lambda out, y: torch.einsum(
                "bc,bc->b", out.softmax(1), share_of_the_batch(y)
            ).mean(),
            "root of a mean": lambda out, y: F.mse_loss(out, y).sqrt(),
            "BCE, weights of samples": lambda out, y: (
                F.binary_cross_entropy_with_logits(out, y, weight=y.sum(1, True))
            ),
            "BCE, classes balanced by the batch": lambda out, y: (
                F.binary_cross_entropy_with_logits(out, y, pos_weight=y.mean(0))
            ),
        },
        (lambda: nn.Linear(FEATURES, 1), lambda size: torch.rand(size)): {
            "every sample with every target": lambda out, y: (out - y).pow(2).mean(),
        },
    }
)
"""Name: (module, targets, loss); a sample moves the gradients of others, or may."""
