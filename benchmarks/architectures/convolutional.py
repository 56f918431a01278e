"""ResNet-18 on 32 by 32 pixels and ResNet-50, with group normalization.

Sources: He et al. (2015), arXiv:1512.03385 (blocks; the stem for small pictures of its
section 4.2, and for large ones of its table 1); Wu and He (2018), arXiv:1803.08494
(groups, here of 16 channels, in place of statistics of the batch, which private
training cannot use).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from torch import Tensor, nn

WIDTHS, CHANNELS_A_GROUP = (64, 128, 256, 512), 16
CLASSES, IMAGENET_CLASSES = 10, 1_000


class Residual(nn.Module):
    """Layers with a shortcut around them.

    Args:
        layers: The layers.
        inputs: Channels of the input.
        outputs: Channels of the output.
        stride: Stride of the layers.
    """

    def __init__(
        self, layers: nn.Sequential, inputs: int, outputs: int, stride: int
    ) -> None:
        super().__init__()
        self.residual = layers
        self.shortcut: nn.Module = nn.Identity()
        if stride > 1 or inputs != outputs:
            self.shortcut = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), _norm(outputs)
            )

    def forward(self, x: Tensor) -> Tensor:
        """Map (B, C, H, W) to (B, C', H / stride, W / stride)."""
        out: Tensor = (self.residual(x) + self.shortcut(x)).relu()
        return out


def basic_block(inputs: int, width: int, stride: int) -> Residual:
    """Return two convolutions with a shortcut; the output has ``width`` channels."""
    layers = nn.Sequential(
        nn.Conv2d(inputs, width, 3, stride, padding=1, bias=False),
        _norm(width),
        nn.ReLU(),
        nn.Conv2d(width, width, 3, padding=1, bias=False),
        _norm(width),
    )
    return Residual(layers, inputs, width, stride)


def bottleneck(inputs: int, width: int, stride: int) -> Residual:
    """Return three convolutions with a shortcut, to 4 · ``width`` channels."""
    layers = nn.Sequential(
        nn.Conv2d(inputs, width, 1, bias=False),
        _norm(width),
        nn.ReLU(),
        nn.Conv2d(width, width, 3, stride, padding=1, bias=False),
        _norm(width),
        nn.ReLU(),
        nn.Conv2d(width, 4 * width, 1, bias=False),
        _norm(4 * width),
    )
    return Residual(layers, inputs, 4 * width, stride)


def resnet18() -> nn.Module:
    """Return the network from pictures (B, 3, 32, 32) to scores (B, 10)."""
    stem = (
        nn.Conv2d(3, WIDTHS[0], 3, padding=1, bias=False),
        _norm(WIDTHS[0]),
        nn.ReLU(),
    )
    blocks = _blocks(basic_block, 1, WIDTHS, (2, 2, 2, 2))
    return _network(stem, blocks, WIDTHS[-1], CLASSES)


def resnet50(widths: tuple[int, ...] = WIDTHS) -> nn.Module:
    """Return the network from pictures (B, 3, 224, 224) to scores (B, 1000).

    Args:
        widths: Channels of the inner convolutions of each stage.
    """
    stem = (
        nn.Conv2d(3, widths[0], 7, 2, padding=3, bias=False),
        _norm(widths[0]),
        nn.ReLU(),
        nn.MaxPool2d(3, 2, padding=1),
    )
    blocks = _blocks(bottleneck, 4, widths, (3, 4, 6, 3))
    return _network(stem, blocks, 4 * widths[-1], IMAGENET_CLASSES)


def _blocks(
    block: Callable[[int, int, int], Residual],
    expansion: int,
    widths: tuple[int, ...],
    counts: tuple[int, ...],
) -> Iterator[nn.Module]:
    """Yield the blocks of all stages; the first of each later stage halves the size."""
    channels = widths[0]
    for stage, (width, count) in enumerate(zip(widths, counts, strict=True)):
        for index in range(count):
            yield block(channels, width, 2 if stage > 0 and index == 0 else 1)
            channels = expansion * width


def _network(
    stem: Iterable[nn.Module], blocks: Iterable[nn.Module], channels: int, classes: int
) -> nn.Module:
    pool = nn.AdaptiveAvgPool2d(1), nn.Flatten()
    return nn.Sequential(*stem, *blocks, *pool, nn.Linear(channels, classes))


def _norm(channels: int) -> nn.Module:
    return nn.GroupNorm(channels // CHANNELS_A_GROUP, channels)
