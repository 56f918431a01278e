"""Models in bfloat16 are compared with a reference in float32, and no less strictly."""

import pytest
import torch
from torch import nn

from dpsgd_explorer.errors import UnsupportedModuleError
from tests.dp.nets import attached

WIDTH, CLASSES, WORDS = 32, 5, 50


class Positions(nn.Module):
    """The mean over positions of some layers, [B, T, d] -> [B, classes]."""

    def __init__(self, *layers):
        super().__init__()
        self.body, self.head = nn.Sequential(*layers), nn.Linear(WIDTH, CLASSES)

    def forward(self, x):
        return self.head(self.body(x).mean(1))


class Tied(nn.Module):
    """The output layer has the embedding's weights."""

    def __init__(self):
        super().__init__()
        self.words, self.norm = nn.Embedding(WORDS, WIDTH), nn.LayerNorm(WIDTH)
        self.body = nn.Linear(WIDTH, WIDTH)
        self.out = nn.Linear(WIDTH, WORDS, bias=False)
        self.out.weight = self.words.weight

    def forward(self, ids):
        return self.out(self.norm(self.body(self.words(ids)).tanh())).mean(1)


class Converting(nn.Module):
    """Runs in bfloat16 by an autocast of its own, as accelerate prepares a model."""

    def __init__(self, *layers):
        super().__init__()
        self.inside = Positions(*layers)

    def forward(self, x):
        with torch.autocast("cpu", torch.bfloat16):
            return self.inside(x).float()


def encoder(**options):
    return nn.TransformerEncoderLayer(
        WIDTH, 4, 64, dropout=0.0, batch_first=True, **options
    )


MODELS = {
    "norm": lambda: Positions(nn.Linear(WIDTH, WIDTH), nn.LayerNorm(WIDTH)).bfloat16(),
    "post-norm": lambda: Positions(encoder()).bfloat16(),
    "pre-norm": lambda: Positions(encoder(norm_first=True)).bfloat16(),
    "tied": lambda: Tied().bfloat16(),
    "own autocast": lambda: Converting(encoder()),
    "own conversion": lambda: nn.Sequential(
        Positions(nn.Linear(WIDTH, WIDTH)).bfloat16(), Cast(), nn.Linear(CLASSES, 2)
    ),
}


class Cast(nn.Module):
    def forward(self, x):
        return x.to(torch.bfloat16).float()


def inputs(model, length):
    if isinstance(model, Tied):
        return torch.randint(0, WORDS, (4, length))
    x = torch.randn(4, length, WIDTH)
    return x.to(next(model.parameters()).dtype)


@pytest.mark.parametrize(("length", "seeds"), [(40, 3), (577, 1)])
@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
def test_honest_models_pass_at_any_length(make, length, seeds):
    """Round-off grows with the length: more seeds find what few positions show."""
    for seed in range(seeds):
        torch.manual_seed(seed)
        model = make()
        attached(model)
        model(inputs(model, length))


def deep_linear():
    layers = [(nn.LayerNorm(16), nn.ReLU(), nn.Linear(16, 16)) for _ in range(20)]
    return nn.Sequential(
        nn.Linear(16, 16), *(layer for some in layers for layer in some)
    )


def deep_convolution():
    layers = [nn.Conv2d(3, 8, 3, padding=1)]
    for _ in range(6):
        layers += [nn.GroupNorm(2, 8), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1)]
        layers += [nn.MaxPool2d(3, 1, 1)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())


DEEP = {
    "linear": (deep_linear, (4, 16)),
    "convolution": (deep_convolution, (4, 3, 8, 8)),
}


@pytest.mark.parametrize(("make", "shape"), DEEP.values(), ids=DEEP)
def test_deep_models_whose_forward_drifts_from_float32_pass(make, shape):
    """Their gradients in bfloat16 are those of autograd, but not those in float32."""
    torch.manual_seed(0)
    model = make()
    attached(model)
    with torch.autocast("cpu", torch.bfloat16):
        model(torch.randn(shape))


class Reading(nn.Module):
    """A deep model that uses a share of its first weight outside the layer."""

    def __init__(self, share):
        super().__init__()
        self.inside, self.share = deep_linear(), share

    def forward(self, x):
        return self.inside(x) + self.share * x @ self.inside[0].weight.T


@pytest.mark.parametrize("share", [0.5, -1.0])
def test_mistakes_are_refused_in_a_deep_model_too(share):
    torch.manual_seed(0)
    model = Reading(share)
    attached(model)
    wrong = pytest.raises(UnsupportedModuleError, match="do not add up")
    with torch.autocast("cpu", torch.bfloat16), wrong:
        model(torch.randn(4, 16))


class Borrowing(Positions):
    """Uses a share of a weight outside its layer."""

    def __init__(self, head, share):
        super().__init__(head)
        self.share = share

    def forward(self, x):
        hidden = self.body(x).mean(1)
        return self.head(hidden) + self.share * hidden @ self.head.weight.T


def borrowing(share):
    return Borrowing(nn.Linear(WIDTH, WIDTH), share)


class Peek(nn.Module):
    def __init__(self, share):
        super().__init__()
        self.share = share

    def forward(self, x):
        return x + self.share * x.roll(1, 0)


MISTAKES = {
    "a borrowed weight": (lambda: borrowing(1.0), "do not add up"),
    "a part of a weight": (lambda: borrowing(0.5), "do not add up"),
    "mixing": (lambda: Positions(nn.Linear(WIDTH, WIDTH), Peek(0.1)), "mixes"),
}


@pytest.mark.parametrize("length", [40, 197])
@pytest.mark.parametrize(("make", "words"), MISTAKES.values(), ids=MISTAKES)
def test_mistakes_are_refused_in_low_precision_too(make, words, length):
    torch.manual_seed(0)
    model = make().bfloat16()
    attached(model)
    with pytest.raises(UnsupportedModuleError, match=words):
        model(inputs(model, length))
