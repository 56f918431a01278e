"""Results of a rare class with privacy, recorded by ``tools/record/fairness.py``.

One model, one number of steps, one batch size, three seeds; only the noise, and whether
gradients are clipped, differ.  Bagdasaryan, Poursaeed and Shmatikov (2019),
arXiv:1905.12101, found the effect; these are our own measurements.
"""

from __future__ import annotations

import statistics
from functools import cache, partial

from markupsafe import Markup

from dpsgd_explorer.accounting import noise_multiplier
from dpsgd_explorer.web.figures.svg import Picture, Plot, Point
from dpsgd_explorer.web.recorded.files import recording

stored = partial(recording, "fairness/mnist")
#: Test pictures of one run per level, recorded by ``tools/record/misread.py``.
misread = partial(recording, "fairness/misread")
ORDINARY, CLIPPED = "ordinary", "clipped only"
LEAST = "ε = 1"
USUAL = "1"  # factor of the learning rate
SHORT = {ORDINARY: "ordinary", CLIPPED: "clipped"}


def levels() -> list[str]:
    """Returns the levels of privacy, from none to most."""
    return list(stored()["data"]["rare"]["runs"])


def rare_digit() -> int:
    """Returns the class that was made rare."""
    label: int = stored()["rare_class"]
    return label


def rate_factors(data: str) -> list[str]:
    """Returns the learning rates tried, as multiples of the usual ones."""
    return list(stored()["data"][data]["runs"][ORDINARY])


@cache
def tuned_factor(data: str, level: str) -> str:
    """Returns the learning rate of the best mean share over all test records."""
    return max(rate_factors(data), key=lambda factor: mean(data, level, None, factor))


def rights(data: str, level: str, label: int | None, factor: str) -> list[float]:
    """Returns the share of right predictions, percent, one per seed.

    Args:
        data: "whole" or "rare", the data set with all or few records of the class.
        level: One of ``levels``.
        label: Class, all test records if None.
        factor: One of ``factors``.
    """
    return [
        100 * (run["accuracy"] if label is None else run["by_class"][label])
        for run in stored()["data"][data]["runs"][level][factor]
    ]


def mean(data: str, level: str, label: int | None, factor: str | None = None) -> float:
    """Returns the mean of ``rights`` over the seeds, at the tuned rate unless named."""
    chosen = tuned_factor(data, level) if factor is None else factor
    return statistics.fmean(rights(data, level, label, chosen))


def others(level: str) -> float:
    """Returns the mean share over the other classes, each counted alike."""
    rest = [k for k in range(10) if k != rare_digit()]
    return statistics.fmean(mean("rare", level, label) for label in rest)


def record_count(data: str) -> int:
    """Returns the number of training records of the rare class."""
    count: int = stored()["data"][data]["records"][rare_digit()]
    return count


def clipped_share(kind: str, factor: str = USUAL) -> str:
    """Returns the clipped share of a kind, "rare" or "others", without noise, percent.

    Over the last steps; the mean over the seeds.
    """
    runs = stored()["data"]["rare"]["runs"][CLIPPED][factor]
    return f"{100 * statistics.fmean(run['clipped'][kind] for run in runs):.0f}"


def rare_accuracy(level: str, factor: str | None = None) -> str:
    """Returns the rare class's mean share as text, at the tuned rate unless named."""
    return f"{mean('rare', level, rare_digit(), factor):.0f}"


def frequent_accuracy(level: str) -> str:
    """Returns the class's mean share as text where it is as frequent as others."""
    return f"{mean('whole', level, rare_digit()):.0f}"


def learning_rates(kind: str) -> str:
    """Returns the learning rates tried, "private" or "ordinary", from least to most."""
    usual = stored()["learning_rates"][kind]
    rates = [f"{float(factor) * usual:g}" for factor in rate_factors("rare")]
    return f"{rates[0]} to {rates[-1]}"


def points_lost(first: str, second: str, data: str = "rare") -> str:
    """Returns by how many points the class's mean falls between two tuned levels."""
    return f"{mean(data, first, rare_digit()) - mean(data, second, rare_digit()):.1f}"


def average_points_lost() -> str:
    """Returns the fall of the accuracy on all test records, in points.

    Compares tuned runs with a rare class, without privacy and with the smallest ε.
    """
    return f"{mean('rare', ORDINARY, None) - mean('rare', LEAST, None):.1f}"


@cache
def noise_ratio() -> str:
    """Returns the ratio of the noise at ε = 1 to the noise at ε = 3."""
    run, size = stored(), sum(stored()["data"]["rare"]["records"])
    rate = run["batch_size"] / size
    needed = [
        noise_multiplier(
            target_epsilon=e, sample_rate=rate, steps=run["steps"], delta=run["delta"]
        )
        for e in (1.0, 3.0)
    ]
    return f"{needed[0] / needed[1]:.1f}"


@cache
def rare_picture() -> Picture:
    """Returns the rare class, the same class when frequent, and the others."""
    count = len(stored()["seeds"])
    return Picture(
        title=(
            f"Of {rare_digit()}s with {record_count('rare')} training pictures, "
            f"{rare_accuracy(ORDINARY)} % are read right without privacy and "
            f"{rare_accuracy(LEAST)} % at {LEAST}"
        ),
        sub=(
            "Right predictions on the whole test set, %; wavelet features and a linear "
            f"layer on MNIST, {stored()['steps']} steps, mean and each of {count} seeds"
        ),
        wide=_draw((904, 360), narrow=False),
        narrow=_draw((342, 330), narrow=True),
        head=(
            "training",
            f"{rare_digit()}, {record_count('rare')} pictures",
            "the same at the usual rate",
            f"{rare_digit()}, {record_count('whole'):,} pictures",
            "the other digits",
        ),
        rows=tuple(
            (
                level,
                f"{mean('rare', level, rare_digit()):.1f}",
                f"{mean('rare', level, rare_digit(), USUAL):.1f}",
                f"{mean('whole', level, rare_digit()):.1f}",
                f"{others(level):.1f}",
            )
            for level in levels()
        ),
        kind="recorded",
        note="Each at the learning rate that is best on average over all test "
        "pictures, of those tried. “Ordinary” and “clipped” are not private. "
        "Test pictures are public.",
    )


def _draw(size: tuple[int, int], *, narrow: bool) -> Markup:
    names = levels()
    right = 12 if narrow else 150
    plot = Plot.framed(size, (-0.3, len(names) - 0.7), (60, 100), right=right)
    plot.y_axis([(y, f"{y}") for y in (60, 70, 80, 90, 100)], "%")
    ticks = [(float(i), SHORT.get(name, name)) for i, name in enumerate(names)]
    plot.x_axis(ticks, "more privacy →")
    label = rare_digit()
    drawn: tuple[tuple[str, str, float, list[float]], ...] = (
        (
            f"{label}, when frequent",
            "private",
            20,
            [mean("whole", name, label) for name in names],
        ),
        ("the other digits", "twin", -10, [others(name) for name in names]),
        (
            f"{label}, when rare",
            "attack",
            -14,
            [mean("rare", name, label) for name in names],
        ),
        (
            "… at the usual rate",
            "attack",
            20,
            [mean("rare", name, label, USUAL) for name in names],
        ),
    )
    for words, css, below, values in drawn:
        points: list[Point] = [(float(i), value) for i, value in enumerate(values)]
        is_aside = css == "twin" or words.startswith("…")
        plot.line(points, f"s-{css}{' dashed thin' if is_aside else ''}")
        if narrow or css == "attack":
            plot.text(points[1], words, f"{css} halo", "start", (8, below))
        else:
            plot.text(points[-1], words, f"{css} halo", "start", (14, below / 2 + 4))
    for i, name in enumerate(names):
        for value in rights("rare", name, label, tuned_factor("rare", name)):
            plot.speck((float(i), value), "f-attack", 3)
        for value in rights("whole", name, label, tuned_factor("whole", name)):
            plot.speck((float(i), value), "f-private", 2.5)
    return plot.svg(
        f"Lines over {len(names)} levels of privacy. Two stay near 98 percent; the "
        f"line of the rare class goes from {rare_accuracy(ORDINARY)} to "
        f"{rare_accuracy(LEAST)} percent, and lower at the usual learning rate."
    )
