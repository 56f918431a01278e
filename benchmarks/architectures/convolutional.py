"""ResNet-18 on 32 by 32 pixels and ResNet-50, with group normalization.

Sources: He et al. (2015), arXiv:1512.03385 (blocks; the stem for small pictures of its
section 4.2, and for large ones of its table 1); Wu and He (2018), arXiv:1803.08494
(groups, here of 16 channels, in place of statistics of the batch, which private
training cannot use).
"""

from __future__ import annotations

from torch import Tensor, nn

WIDTHS, BLOCKS_A_STAGE, CHANNELS_A_GROUP, CLASSES = (64, 128, 256, 512), 2, 16, 10


class BasicBlock(nn.Module):
    """Two convolutions with a shortcut around them.

    Args:
        inputs: Channels of the input.
        outputs: Channels of the output.
        stride: Stride of the first convolution.
    """

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.residual = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False),
            _norm(outputs),
            nn.ReLU(),
            nn.Conv2d(outputs, outputs, 3, padding=1, bias=False),
            _norm(outputs),
        )
        self.shortcut: nn.Module = nn.Identity()
        if stride > 1 or inputs != outputs:
            self.shortcut = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), _norm(outputs)
            )

    def forward(self, x: Tensor) -> Tensor:
        """Map (B, C, H, W) to (B, C', H / stride, W / stride)."""
        out: Tensor = (self.residual(x) + self.shortcut(x)).relu()
        return out


class Bottleneck(nn.Module):
    """Three convolutions, the middle one of a quarter of the channels, with a shortcut.

    Args:
        inputs: Channels of the input.
        outputs: Channels of the output.
        stride: Stride of the middle convolution.
    """

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        inner = outputs // 4
        self.residual = nn.Sequential(
            nn.Conv2d(inputs, inner, 1, bias=False),
            _norm(inner),
            nn.ReLU(),
            nn.Conv2d(inner, inner, 3, stride, padding=1, bias=False),
            _norm(inner),
            nn.ReLU(),
            nn.Conv2d(inner, outputs, 1, bias=False),
            _norm(outputs),
        )
        self.shortcut: nn.Module = nn.Identity()
        if stride > 1 or inputs != outputs:
            self.shortcut = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), _norm(outputs)
            )

    def forward(self, x: Tensor) -> Tensor:
        """Map (B, C, H, W) to (B, C', H / stride, W / stride)."""
        out: Tensor = (self.residual(x) + self.shortcut(x)).relu()
        return out


def resnet50(widths: tuple[int, ...] = WIDTHS) -> nn.Module:
    """Return the network from pictures (B, 3, 224, 224) to scores (B, 1000).

    Args:
        widths: Channels of the inner convolutions of each stage.
    """
    layers: list[nn.Module] = [
        nn.Conv2d(3, widths[0], 7, 2, padding=3, bias=False),
        _norm(widths[0]),
        nn.ReLU(),
        nn.MaxPool2d(3, 2, padding=1),
    ]
    channels = widths[0]
    for stage, (width, blocks) in enumerate(zip(widths, (3, 4, 6, 3), strict=True)):
        for block in range(blocks):
            stride = 2 if stage > 0 and block == 0 else 1
            layers.append(Bottleneck(channels, 4 * width, stride))
            channels = 4 * width
    pool = nn.AdaptiveAvgPool2d(1), nn.Flatten()
    return nn.Sequential(*layers, *pool, nn.Linear(channels, 1_000))


def resnet18() -> nn.Module:
    """Return the network from pictures (B, 3, 32, 32) to scores (B, 10)."""
    layers: list[nn.Module] = [
        nn.Conv2d(3, WIDTHS[0], 3, padding=1, bias=False),
        _norm(WIDTHS[0]),
        nn.ReLU(),
    ]
    channels = WIDTHS[0]
    for stage, width in enumerate(WIDTHS):
        for block in range(BLOCKS_A_STAGE):
            stride = 2 if stage > 0 and block == 0 else 1
            layers.append(BasicBlock(channels, width, stride))
            channels = width
    pool = nn.AdaptiveAvgPool2d(1), nn.Flatten()
    return nn.Sequential(*layers, *pool, nn.Linear(channels, CLASSES))


def _norm(channels: int) -> nn.Module:
    return nn.GroupNorm(channels // CHANNELS_A_GROUP, channels)
