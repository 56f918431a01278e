"""The noise that a batch size costs, and its drawing."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache, partial

from markupsafe import Markup

from dpsgd_explorer.accounting import Plan
from dpsgd_explorer.web.figures.svg import Picture, Plot, small
from dpsgd_explorer.web.hub.examples.classic_run import ACCOUNTANT, DELTA, SAMPLE_SIZE
from dpsgd_explorer.web.questions.comparison import Comparison
from dpsgd_explorer.web.questions.rounding import limit, need, significant

TARGET_EPSILON = 3.0
EPOCHS = 20
BATCH_SIZES = (64, 256, 1024, 4096, 16384)  # of the drawing
FIXED_NOISE = 1.1  # noise multiplier of the table's last column


@dataclass(frozen=True)
class BatchCost:
    """Noise and ε of one batch size.

    Attributes:
        batch_size: Expected records per batch.
        steps: Number of steps.
        noise_multiplier: Noise multiplier for the target ε.
        epsilon_at_fixed_noise: ε with the noise multiplier ``FIXED_NOISE``.
    """

    batch_size: int
    steps: int
    noise_multiplier: float
    epsilon_at_fixed_noise: float

    @property
    def noise_per_update(self) -> float:
        """Noise on the average gradient, in units of C: σ / (qN)."""
        return self.noise_multiplier / self.batch_size

    @property
    def noise_over_run(self) -> float:
        """Noise over the run, σ / (qN √T), in units of C.

        T steps at a constant learning rate move by a steady gradient times T, and by
        noise times √T.
        """
        return self.noise_per_update / math.sqrt(self.steps)


@cache
def batch_costs() -> tuple[BatchCost, ...]:
    """Returns the cost of each batch size at the same number of epochs."""
    return tuple(
        batch_cost(size, TARGET_EPSILON, EPOCHS, SAMPLE_SIZE) for size in BATCH_SIZES
    )


@cache
def batch_cost(
    expected_batch_size: int, epsilon: float, epochs: float, sample_size: int
) -> BatchCost:
    """Returns the cost of a batch size at a target ε and a number of epochs."""
    plan = partial(
        Plan.create,
        expected_batch_size=expected_batch_size,
        sample_size=sample_size,
        epochs=epochs,
        delta=DELTA,
        accountant=ACCOUNTANT,
    )
    aimed, fixed = plan(target_epsilon=epsilon), plan(noise_multiplier=FIXED_NOISE)
    return BatchCost(
        expected_batch_size, aimed.steps, aimed.noise_multiplier, fixed.epsilon()
    )


def noise_per_update(
    expected_batch_size: int, epsilon: float, epochs: float, sample_size: int
) -> float:
    """Returns the noise on an average gradient, in units of C."""
    cost = batch_cost(expected_batch_size, epsilon, epochs, sample_size)
    return cost.noise_per_update


def noise_over_run(
    expected_batch_size: int, epsilon: float, epochs: float, sample_size: int
) -> float:
    """Returns the noise over the run next to a steady gradient, in units of C."""
    return batch_cost(expected_batch_size, epsilon, epochs, sample_size).noise_over_run


@cache
def batch_picture() -> Picture:
    """Returns the noise on the average gradient against the batch size, at one ε."""
    costs = batch_costs()
    update, run = (
        Comparison(
            measure,
            "expected_batch_size",
            (BATCH_SIZES[-2], BATCH_SIZES[0]),
            {
                "epsilon": TARGET_EPSILON,
                "epochs": EPOCHS,
                "sample_size": SAMPLE_SIZE,
            },
            significant,
        )
        for measure in (noise_per_update, noise_over_run)
    )
    large, small = update.values
    beyond = noise_over_run(large, **run.fixed) / noise_over_run(
        BATCH_SIZES[-1], **run.fixed
    )
    return Picture(
        title=(
            f"At the same ε and epochs, a batch of {large:,} carries "
            f"{significant(update.ratio)} times less noise per update than one of "
            f"{small}, and {significant(run.ratio)} times less over the run"
        ),
        sub=(
            "Noise on the average gradient, σ / (qN), and over the run, σ / (qN √T), "
            f"in units of C; {update.held}, δ = 1e-5"
        ),
        comparisons=(update, run),
        wide=_batch((904, 320), narrow=False),
        narrow=_batch((342, 260), narrow=True),
        head=(
            "batch qN",
            "steps",
            f"σ for ε = {TARGET_EPSILON:g}",
            "noise per update σ / (qN)",
            "over the run σ / (qN √T)",
            f"ε if σ = {FIXED_NOISE}",
        ),
        rows=tuple(
            (
                f"{c.batch_size:,}",
                f"{c.steps:,}",
                need(c.noise_multiplier),
                significant(c.noise_per_update),
                significant(c.noise_over_run, 3),
                limit(c.epsilon_at_fixed_noise),
            )
            for c in costs
        ),
        status="exact",
        note="Add or remove one record, Poisson sampling, exact accountant. The lower "
        "line is for a constant learning rate and a steady gradient; from "
        f"{large:,} to {BATCH_SIZES[-1]:,} it gains {significant(beyond)} times.",
    )


def _batch(size: tuple[int, int], *, narrow: bool) -> Markup:
    plot = Plot.framed(
        size,
        (50, 20_000),
        (1e-5, 0.03),
        log_x=True,
        log_y=True,
        left=52,
        right=16 if narrow else 60,
    )
    plot.y_axis(
        [(v, small(v)) for v in (1e-5, 1e-4, 1e-3, 1e-2)],
        "noise in units of C, log scale",
    )
    plot.x_axis([(b, f"{b:,}") for b in BATCH_SIZES], "expected batch size, log scale")
    points = [(float(c.batch_size), c.noise_per_update) for c in batch_costs()]
    plot.line(points, "s-private")
    for cost, point in zip(batch_costs(), points, strict=True):
        plot.dot(point, "f-private", 4)
        label = f"{cost.steps:,} steps" if not narrow else f"{cost.steps:,}"
        plot.text(point, label, "halo", "start", (8, -8))
    over_run = [(float(c.batch_size), c.noise_over_run) for c in batch_costs()]
    plot.line(over_run, "s-ink")
    for point in over_run:
        plot.dot(point, "f-ink", 4)
    plot.text(points[2], "per update", "private halo", "end", (-10, 22))
    plot.text(over_run[1], "over the run", "ink halo", "start", (0, 24))
    return plot.svg(
        "Two lines over the expected batch: the noise per update falls all the way, "
        "the noise over the run falls a little and then stays flat."
    )
