"""BERT, GPT-2 and ViT as plain torch modules, and two methods of partial training.

Blocks, order of normalization, biases, activations and tied weights are as published;
depth, width and GPT-2's vocabulary are smaller.  There is no dropout, as is usual in
private training.

Sources: Devlin et al. (2018), arXiv:1810.04805 (BERT); Radford et al. (2019), Language
Models are Unsupervised Multitask Learners (GPT-2); Dosovitskiy et al. (2020),
arXiv:2010.11929 (ViT); Touvron et al. (2020), arXiv:2012.12877 (its tiny size); Hu et
al. (2021), arXiv:2106.09685 (LoRA); Ben Zaken et al. (2021), arXiv:2106.10199 (biases
alone).
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

LAYERS, WIDTH, HEADS, LENGTH = 4, 256, 4, 128
BERT_VOCABULARY, GPT2_VOCABULARY = 30_522, 4_096
SEGMENTS, CLASSES = 2, 2
PIXELS, PATCH, VIT_WIDTH, VIT_HEADS, PICTURE_CLASSES = 32, 4, 192, 3, 10
RANK, ALPHA = 8, 16.0
INITIAL_STD = 0.02  # standard deviation of initial weights in BERT, GPT-2 and ViT


class SelfAttention(nn.Module):
    """Multi-head self-attention between an input and an output projection.

    Args:
        width: Width d.
        heads: Number of heads.
        causal: If True, a position attends only to itself and to earlier positions.
    """

    def __init__(self, width: int, heads: int, *, causal: bool) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.query_key_value: nn.Module = nn.Linear(width, 3 * width)
        self.output = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        """Map (B, T, d) to (B, T, d)."""
        projected = self.query_key_value(x)
        split = projected.view(*x.shape[:2], 3, self.heads, -1)
        q, k, v = split.permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        out: Tensor = self.output(attended.transpose(1, 2).flatten(2))
        return out


class Block(nn.Module):
    """Attention, and a feed-forward network of four times the width.

    Args:
        width: Width d.
        heads: Number of heads.
        causal: If True, a position attends only to itself and to earlier positions.
        normalises_first: If True, each sublayer reads normalized inputs, as in GPT-2
            and ViT; otherwise the sum with its input is normalized, as in BERT.
        approximate: Approximation of GELU: "tanh" in GPT-2, otherwise "none".
    """

    def __init__(
        self,
        width: int,
        heads: int,
        *,
        causal: bool = False,
        normalises_first: bool = True,
        approximate: str = "none",
    ) -> None:
        super().__init__()
        self.normalises_first = normalises_first
        self.attention = SelfAttention(width, heads, causal=causal)
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.feed_forward = nn.Sequential(
            nn.Linear(width, 4 * width),
            nn.GELU(approximate),
            nn.Linear(4 * width, width),
        )

    def forward(self, x: Tensor) -> Tensor:
        """Map (B, T, d) to (B, T, d)."""
        out: Tensor
        if self.normalises_first:
            x = x + self.attention(self.norm_1(x))
            out = x + self.feed_forward(self.norm_2(x))
        else:
            x = self.norm_1(x + self.attention(x))
            out = self.norm_2(x + self.feed_forward(x))
        return out


class Bert(nn.Module):
    """BERT with its pooler and a classifier of the whole text.

    Args:
        layers: Number of blocks.
        width: Width d.
        heads: Number of heads per attention.
        length: Maximum number of positions of a text.
    """

    def __init__(
        self,
        layers: int = LAYERS,
        width: int = WIDTH,
        heads: int = HEADS,
        length: int = LENGTH,
    ) -> None:
        super().__init__()
        self.words = nn.Embedding(BERT_VOCABULARY, width, padding_idx=0)
        self.positions = nn.Embedding(length, width)
        self.segments = nn.Embedding(SEGMENTS, width)
        self.norm = nn.LayerNorm(width)
        blocks = [Block(width, heads, normalises_first=False) for _ in range(layers)]
        self.blocks = nn.Sequential(*blocks)
        self.pooler = nn.Linear(width, width)
        self.classifier = nn.Linear(width, CLASSES)
        self.apply(_initialise)

    def forward(self, ids: Tensor) -> Tensor:
        """Map ids (B, T) to scores (B, classes)."""
        places = _places(ids)
        segments = torch.zeros_like(ids)
        embedded = self.words(ids) + self.positions(places) + self.segments(segments)
        hidden = self.blocks(self.norm(embedded))
        scores: Tensor = self.classifier(self.pooler(hidden[:, 0]).tanh())
        return scores


class Gpt2(nn.Module):
    """GPT-2 with its language-modelling head.

    Args:
        layers: Number of blocks.
        width: Width d.
        heads: Number of heads per attention.
        length: Maximum number of positions of a text.
        vocabulary: Number of ids.
        is_tied: If True, the head shares the embedding's weight, as published.
    """

    def __init__(
        self,
        layers: int = LAYERS,
        width: int = WIDTH,
        heads: int = HEADS,
        length: int = LENGTH,
        vocabulary: int = GPT2_VOCABULARY,
        *,
        is_tied: bool = True,
    ) -> None:
        super().__init__()
        self.words = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(length, width)
        blocks = [
            Block(width, heads, causal=True, approximate="tanh") for _ in range(layers)
        ]
        self.blocks = nn.Sequential(*blocks)
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.apply(_initialise)
        if is_tied:
            self.head.weight = self.words.weight

    def forward(self, ids: Tensor) -> Tensor:
        """Map ids (B, T) to scores (B, T, vocabulary)."""
        places = _places(ids)
        hidden = self.blocks(self.words(ids) + self.positions(places))
        scores: Tensor = self.head(self.norm(hidden))
        return scores


class Vit(nn.Module):
    """ViT with a class token.

    Args:
        layers: Number of blocks.
        width: Width d.
        heads: Number of heads per attention.
        pixels: Height and width of a picture.
        patch: Height and width of a patch.
        classes: Number of classes.
    """

    def __init__(
        self,
        layers: int = LAYERS,
        width: int = VIT_WIDTH,
        heads: int = VIT_HEADS,
        pixels: int = PIXELS,
        patch: int = PATCH,
        classes: int = PICTURE_CLASSES,
    ) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, stride=patch)
        self.class_token = nn.Embedding(1, width)
        self.positions = nn.Embedding(1 + (pixels // patch) ** 2, width)
        blocks = [Block(width, heads) for _ in range(layers)]
        self.blocks = nn.Sequential(*blocks)
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, classes)
        self.apply(_initialise)

    def forward(self, pictures: Tensor) -> Tensor:
        """Map pictures (B, 3, H, W) to scores (B, classes)."""
        embedded = self.patches(pictures).flatten(2).transpose(1, 2)
        first = torch.zeros(len(pictures), 1, dtype=torch.long, device=pictures.device)
        tokens = torch.cat([self.class_token(first), embedded], 1)
        positions = self.positions(_places(tokens[..., 0]))
        hidden = self.norm(self.blocks(tokens + positions))
        scores: Tensor = self.head(hidden[:, 0])
        return scores


class LowRank(nn.Module):
    """A frozen linear layer plus a trained product of rank r (LoRA).

    Args:
        frozen: The frozen layer.
    """

    def __init__(self, frozen: nn.Linear) -> None:
        super().__init__()
        self.frozen = frozen.requires_grad_(False)
        self.down = nn.Linear(frozen.in_features, RANK, bias=False)
        self.up = nn.Linear(RANK, frozen.out_features, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, x: Tensor) -> Tensor:
        """Map (..., d) to (..., p)."""
        out: Tensor = self.frozen(x) + ALPHA / RANK * self.up(self.down(x))
        return out


def lora_gpt2(model: nn.Module | None = None) -> nn.Module:
    """Returns GPT-2 that trains only a low-rank adapter per attention input."""
    model = (model or Gpt2()).requires_grad_(False)
    for module in list(model.modules()):
        if isinstance(module, SelfAttention):
            dense = module.query_key_value
            if isinstance(dense, nn.Linear):
                module.query_key_value = LowRank(dense)
    return model


def bias_only_bert() -> nn.Module:
    """Returns BERT that trains only its biases and the classifier."""
    model = Bert()
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name.endswith("bias") or "classifier" in name)
    return model


def _places(x: Tensor) -> Tensor:
    """Return the places 0, 1, ... of the tokens, (B, T).

    They are contiguous: Opacus's ghost clipping fails on an expanded tensor.
    """
    return torch.arange(x.shape[1], device=x.device).repeat(len(x), 1)


def _initialise(module: nn.Module) -> None:
    if isinstance(module, nn.Linear | nn.Embedding):
        nn.init.normal_(module.weight, std=INITIAL_STD)
    if isinstance(module, nn.Linear) and module.bias is not None:
        nn.init.zeros_(module.bias)
