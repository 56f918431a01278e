"""Figure of the default model on one digit, from a recording.

``tools/record/default_model.py`` writes the recording.  Source of scattering: Bruna and
Mallat (2013), arXiv:1203.1513.  Source of scattering before a private linear layer:
Tramèr and Boneh (2021), arXiv:2011.11660.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, partial

from markupsafe import Markup

from dpsgd_explorer.experiments.catalogue import MODELS
from dpsgd_explorer.web.figures.svg import Picture, Plot, Scale
from dpsgd_explorer.web.questions.rounding import nearest
from dpsgd_explorer.web.recorded.files import recording
from dpsgd_explorer.web.recorded.runs import recorded

stored = partial(recording, "choices/default_model")
GREYS = 8  # number of grey levels
Grid = Sequence[Sequence[float]]


@cache
def default_model_picture() -> Picture:
    """Returns the figure of a digit, some of its channels, and the ten scores."""
    digit, scores = stored()["digit"], stored()["scores"]
    best, second = sorted(scores, reverse=True)[:2]
    model = MODELS[recorded(stored()["preset"]).config.model]
    channels = stored()["all_channels"]
    values = channels * len(stored()["channels"][0]) ** 2
    return Picture(
        title=(
            f"One linear layer on {values:,} fixed averages reads this digit as a "
            f"{scores.index(best)}, {nearest(best - second, 1)} ahead of the next"
        ),
        sub=(
            f"The default model, {model.label.lower()}, as the recorded run ends: the "
            f"first test picture, a {digit}; {len(stored()['channels'])} of its "
            f"{channels} scattering channels; ten scores"
        ),
        wide=_draw((1104, 240), WIDE),
        narrow=_draw((342, 392), NARROW),
        head=("digit", "score"),
        rows=tuple((f"{i}", _words(score, 2)) for i, score in enumerate(scores)),
        kind="recorded",
        note=(
            "A channel measures at 7 × 7 positions how strongly the picture responds "
            "to waves of one direction and size; the other channels respond to waves "
            "of such responses. The picture shows the channels before they are "
            "scaled. Nothing in them is learned, so they cost no privacy; only the "
            f"{model.parameters['mnist']:,} parameters of the last layer are "
            "trained, with noise. The difference of two scores is the logarithm of "
            "their odds; the highest score wins."
        ),
    )


@dataclass(frozen=True)
class Layout:
    """Positions of the parts, in px.

    Attributes:
        digit: Left, top, and size of one pixel of the digit.
        channels: Left, top, and size of one cell of the first channel.
        apart: Horizontal and vertical distance from one channel to the next.
        words: Left and top of the labels of the rows of channels.
        scores: Left, right and top of the bars.
    """

    digit: tuple[float, float, float]
    channels: tuple[float, float, float]
    apart: tuple[float, float]
    words: bool
    scores: tuple[float, float, float]


WIDE = Layout((0, 44, 6), (250, 44, 7), (62, 62), True, (690, 1040, 44))
NARROW = Layout((0, 30, 4), (150, 30, 4), (46, 38), False, (24, 300, 190))
ROW = 19  # px between two bars
BAR = 11


def _draw(size: tuple[int, int], layout: Layout) -> Markup:
    width, height = size
    plot = Plot(width, height, Scale(0, width, 0, width), Scale(0, height, 0, height))
    _heads(plot, layout)
    left, top, pixel = layout.digit
    _grid(plot, stored()["picture"], (left, top), pixel, 255)
    per_row = stored()["orientations"]
    average, *waves = stored()["channels"]
    rows = [[average], *(waves[i : i + per_row] for i in range(0, len(waves), per_row))]
    for down, row in enumerate(rows):
        most = max(value for grid in row for line in grid for value in line)
        for across, grid in enumerate(row):
            left = layout.channels[0] + across * layout.apart[0]
            top = layout.channels[1] + down * layout.apart[1]
            _grid(plot, grid, (left, top), layout.channels[2], most)
    _scores(plot, layout)
    best = max(stored()["scores"])
    return plot.svg(
        f"A handwritten {stored()['digit']}, blurred responses to waves of four "
        "directions and two sizes, and ten bars; the bar of "
        f"{stored()['scores'].index(best)} is the longest."
    )


def _heads(plot: Plot, layout: Layout) -> None:
    """Draws the headings of the three parts, and labels of the channels if they fit."""
    for (left, top), words in (
        (layout.digit[:2], "the record"),
        (layout.channels[:2], "fixed: averages, waves"),
        ((layout.scores[0], layout.scores[2]), "learned: ten scores"),
    ):
        plot.text((left, top - 12), words, "ink")
    if not layout.words:
        return
    right = layout.channels[0] + stored()["orientations"] * layout.apart[0]
    middle = layout.channels[1] + 3.5 * layout.channels[2] + 4
    for row, words in enumerate(("average", "fine waves", "coarse waves")):
        point = (right if row else layout.channels[0] + layout.apart[0], middle)
        plot.text((point[0], point[1] + row * layout.apart[1]), words)


def _grid(
    plot: Plot, grid: Grid, corner: tuple[float, float], size: float, most: float
) -> None:
    """Draws a grid of values from 0 to ``most`` as grey squares below ``corner``."""
    rows, columns = len(grid), len(grid[0])
    plot.marks.append(
        f'<path class="f-sunken" d="M{corner[0]:g} {corner[1]:g}h{size * columns:g}'
        f'v{size * rows:g}h{-size * columns:g}z"/>'
    )
    levels: dict[int, list[str]] = {}
    for i, line in enumerate(grid):
        for j, value in enumerate(line):
            level = round(GREYS * value / most)
            if level > 0:
                start = f"M{corner[0] + j * size:g} {corner[1] + i * size:g}"
                levels.setdefault(level, []).append(
                    f"{start}h{size:g}v{size:g}h{-size:g}z"
                )
    for level, squares in sorted(levels.items()):
        plot.marks.append(
            f'<path class="f-ink" fill-opacity="{level / GREYS:g}" '
            f'd="{"".join(squares)}"/>'
        )


def _scores(plot: Plot, layout: Layout) -> None:
    """Draws a bar to the left or right of zero for each digit."""
    left, right, top = layout.scores
    scores = stored()["scores"]
    low, high = min(0.0, *scores), max(0.0, *scores)
    along = Scale(low, high, left + 60, right)
    for digit, score in enumerate(scores):
        y = top + digit * ROW
        css = "f-private" if score == max(scores) else "f-twin"
        plot.bar((along(0), along(score)), (y, y + BAR), css)
        plot.text((left, y + BAR - 1), str(digit), "ink")
        plot.text((max(along(score), along(0)) + 6, y + BAR - 1), _words(score, 1))
    ends = [(along(0), top - 4), (along(0), top + 10 * ROW)]
    plot.path(ends, "axis")


def _words(score: float, digits: int) -> str:
    return nearest(score, digits).replace("-", "\N{MINUS SIGN}")
