"""Random compositions of torch's operations between a module's outputs and a loss.

The sizes of records, tokens and classes often coincide, so that a shape alone does not
say which dimension counts the records.
"""

import torch
import torch.nn.functional as F
from torch import nn

SIZES = {"records": (2, 3, 4, 6), "tokens": (0, 1, 2, 3, 4), "classes": (1, 2, 3, 4, 6)}
MOST_ELEMENTS = 5_000
UNFIT = (IndexError, RuntimeError, TypeError, ValueError)
"""What torch raises where an operation does not fit its tensors."""


class Rows(nn.Module):
    """A row of scores per record, or one for each of its tokens if there are any."""

    def __init__(self, tokens, classes):
        super().__init__()
        self.shape = (tokens, classes) if tokens else (classes,)
        self.layer = nn.Linear(3, max(1, tokens) * classes)

    def forward(self, x):
        return self.layer(x).view(len(x), *self.shape)


def random_sizes(draw):
    """Return (records, tokens, classes)."""
    return tuple(draw.choice(sizes) for sizes in SIZES.values())


def random_loss(draw, outputs):
    """Return a function of outputs like these, and its operations in words.

    Args:
        draw: ``random.Random``; torch's generator draws targets.
        outputs: A module's outputs.
    """
    values, steps = [outputs], []
    moved = draw.choices(MOVING, k=draw.randint(0, 3))
    for operation in [*moved, *draw.choices(ANY, k=draw.randint(1, 3)), elementwise]:
        name, step = operation(draw, values)
        try:
            value = step(values)
        except UNFIT:
            continue
        if 0 < value.numel() <= MOST_ELEMENTS and value.is_floating_point():
            values.append(value)
            steps.append((name, step))
    last = len(steps)
    way = draw.choice(list(ENDS))

    def loss(outputs):
        found = [outputs]
        for _, step in steps:
            found.append(step(found))
        return ENDS[way](found[last], len(outputs))

    return loss, [*(name for name, _ in steps), f"{way} of {last}"]


ENDS = {
    "mean": lambda value, size: value.mean(),
    "sum": lambda value, size: value.sum(),
    "sum over records": lambda value, size: value.sum() / size,
    "sum over elements": lambda value, size: value.sum() / value.numel(),
    "mean of means": lambda value, size: value.flatten(1).mean(1).mean(),
}


def _one(draw, values):
    """Return the number of a value, mostly the last, and its shape."""
    number = draw.choice([len(values) - 1] * 4 + [draw.randrange(len(values))])
    return number, list(values[number].shape)


def elementwise(draw, values):
    i, _ = _one(draw, values)
    name, function = draw.choice(
        [
            ("relu", torch.relu),
            ("abs", torch.abs),
            ("neg", torch.neg),
            ("tanh", torch.tanh),
            ("sigmoid", torch.sigmoid),
            ("softplus", F.softplus),
            ("square", lambda x: x**2),
            ("clamp", lambda x: x.clamp(-0.5, 0.5)),
            ("three times", lambda x: 3.0 * x),
            ("exp", lambda x: torch.exp(-x.abs())),
            ("double", torch.Tensor.double),
        ]
    )
    return f"{name} {i}", lambda found: function(found[i])


def shaped(draw, values):
    i, shape = _one(draw, values)
    left, sizes = values[i].numel(), []
    for _ in range(draw.randint(0, 3)):
        sizes.append(draw.choice([d for d in range(1, left + 1) if left % d == 0]))
        left //= sizes[-1]
    sizes = draw.sample([*sizes, left], len(sizes) + 1)
    order = draw.sample(range(len(shape)), len(shape))
    dim = draw.randrange(len(shape) + 1)
    wider = [draw.choice([1, 2, 3]), *shape]
    return draw.choice(
        [
            (f"reshape {i} to {sizes}", lambda found: found[i].reshape(sizes)),
            (f"permute {i} by {order}", lambda found: found[i].permute(order)),
            (f"flatten {i}", lambda found: found[i].flatten()),
            (f"unsqueeze {i} at {dim}", lambda found: found[i].unsqueeze(dim)),
            (f"squeeze {i}", lambda found: found[i].squeeze()),
            (f"expand {i} to {wider}", lambda found: found[i].expand(wider)),
            (f"transpose {i}", lambda found: found[i].mT),
        ]
    )


def chosen(draw, values):
    i, shape = _one(draw, values)
    dim = draw.randrange(max(1, len(shape)))
    length = shape[dim] if shape else 1
    first = draw.randrange(length)
    count = draw.randint(1, length - first)
    order = torch.randperm(length)
    sizes = [size - draw.choice([0, 0, 1]) for size in shape]
    entries = torch.randint(0, length, sizes)
    return draw.choice(
        [
            (f"select {i} {dim} {first}", lambda found: found[i].select(dim, first)),
            (
                f"narrow {i} {dim} {first} {count}",
                lambda found: found[i].narrow(dim, first, count),
            ),
            (
                f"permuted {i} {dim}",
                lambda found: found[i].index_select(dim, order),
            ),
            (f"gather {i} {dim}", lambda found: found[i].gather(dim, entries)),
            (f"rows {i}", lambda found: found[i][order % len(found[i])]),
            (f"flip {i} {dim}", lambda found: found[i].flip(dim)),
            (f"cumsum {i} {dim}", lambda found: found[i].cumsum(dim)),
        ]
    )


def reduced(draw, values):
    i, shape = _one(draw, values)
    dims = draw.sample(range(len(shape)), draw.randint(0, len(shape)))
    dims = [dim - draw.choice([0, len(shape)]) for dim in dims]
    dim = dims[0] if dims else 0
    options = {"dim": dim, "keepdim": draw.random() < 0.3}
    name, function = draw.choice(
        [
            ("sum", lambda x: x.sum(dims, options["keepdim"])),
            ("mean", lambda x: x.mean(dims, options["keepdim"])),
            ("logsumexp", lambda x: x.logsumexp(**options)),
            ("amax", lambda x: x.amax(**options)),
            ("max", lambda x: x.max(**options)[0]),
            ("norm", lambda x: torch.linalg.vector_norm(x, 2, **options)),
            ("normalize", lambda x: F.normalize(x, dim=dim)),
            ("softmax", lambda x: x.softmax(dim)),
            ("log_softmax", lambda x: x.log_softmax(dim)),
        ]
    )
    return f"{name} {i} over {dims}", lambda found: function(found[i])


def of_two(draw, values):
    i, j = draw.randrange(len(values)), draw.randrange(len(values))
    dim = draw.randrange(-1, 3)
    name, function = draw.choice(
        [
            ("add", torch.add),
            ("sub", torch.sub),
            ("mul", torch.mul),
            ("div", torch.div),
            ("maximum", torch.maximum),
            ("mse", lambda a, b: F.mse_loss(a, b, reduction="none")),
            ("smooth L1", lambda a, b: F.smooth_l1_loss(a, b, reduction="none")),
            ("cosine", lambda a, b: F.cosine_similarity(a, b, dim=dim)),
            ("stack", lambda a, b: torch.stack([a, b], dim)),
            ("cat", lambda a, b: torch.cat([a, b], dim)),
            ("matmul", lambda a, b: a @ b.mT),
        ]
    )
    return f"{name} {i} {j} {dim}", lambda found: function(found[i], found[j])


def against_targets(draw, values):
    i, shape = _one(draw, values)
    reduction = draw.choice(["none", "mean", "sum"])
    most = shape[1] if len(shape) > 1 else 1
    classes = torch.randint(0, most, shape[:1] + shape[2:])
    numbers = torch.rand(shape)
    name, function, targets = draw.choice(
        [
            ("cross entropy", F.cross_entropy, classes),
            ("nll", F.nll_loss, classes),
            ("margins", F.multi_margin_loss, classes),
            ("bce", F.binary_cross_entropy_with_logits, numbers),
            ("mse", F.mse_loss, numbers),
            ("huber", F.huber_loss, numbers),
            ("soft labels", F.cross_entropy, numbers / numbers.sum()),
        ]
    )
    return (
        f"{name} {i}, {reduction}",
        lambda found: function(found[i], targets, reduction=reduction),
    )


MOVING = (shaped, shaped, shaped, chosen)
ANY = (shaped, chosen, elementwise, reduced, reduced, reduced, of_two, against_targets)
