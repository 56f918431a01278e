"""How ε grows along a run, and what a batch size costs: accounting's own numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache, partial

from markupsafe import Markup

from dpsgd_explorer.accounting import Plan, epsilon_curve, gaussian_epsilon
from dpsgd_explorer.experiments.catalogue import DATA_SETS
from dpsgd_explorer.web.figures.svg import Picture, Plot, Scale, small
from dpsgd_explorer.web.questions.comparison import Comparison
from dpsgd_explorer.web.questions.rounding import limit, need, significant, thousands

DELTA = 1e-5
SAMPLE_SIZE = DATA_SETS["mnist"].train_size
# Growth: the classic MNIST run of the field's tutorials.
BATCH_SIZE = 256
NOISE_MULTIPLIER = 1.1
EPOCHS = 60
LARGE = 1000  # an ε beyond it is printed whole
SHOWN_STEPS = (1, 10, 100, 1_000, 10_000)
# Batch: one target, one length, several batch sizes.
TARGET_EPSILON = 3.0
BATCH_EPOCHS = 20
BATCH_SIZES = (64, 256, 1024, 4096, 16384)
FIXED_NOISE = 1.1


@dataclass(frozen=True)
class Growth:
    """ε after some steps, counted in three ways."""

    steps: int
    summed: float
    composed: float
    sampled: float


def classic_plan() -> Plan:
    """Return the plan of the run whose ε is followed."""
    return Plan.create(
        sample_size=SAMPLE_SIZE,
        expected_batch_size=BATCH_SIZE,
        epochs=EPOCHS,
        noise_multiplier=NOISE_MULTIPLIER,
        delta=DELTA,
        accountant="exact",
    )


@cache
def growth(steps: tuple[int, ...]) -> tuple[Growth, ...]:
    """Return ε after each number of steps.

    ``summed`` adds up the exact ε of single full-batch steps, each at δ / steps;
    ``composed`` is the exact ε of all of them at δ; ``sampled`` is that with
    Poisson sampling.
    """
    plan = classic_plan()
    sampled = epsilon_curve(
        sample_rate=plan.sample_rate,
        noise_multiplier=plan.noise_multiplier,
        delta=DELTA,
        steps=list(steps),
        accountant=plan.accountant,
    )
    sigma = plan.noise_multiplier
    return tuple(
        Growth(
            t,
            t * gaussian_epsilon(delta=DELTA / t, noise_multiplier=sigma),
            gaussian_epsilon(delta=DELTA, noise_multiplier=sigma, steps=t),
            value,
        )
        for t, value in zip(steps, sampled, strict=True)
    )


def classic_epsilon(noise_multiplier: float, steps: int, counted: str) -> float:
    """Return ε of the classic run, counted as a field of ``Growth`` says.

    Raises:
        ValueError: the noise is not that of the classic run.
    """
    if noise_multiplier != classic_plan().noise_multiplier:
        raise ValueError("only the classic run is counted here.")
    value: float = getattr(growth((steps,))[0], counted)
    return value


@cache
def growth_picture() -> Picture:
    """Return three curves of ε over the steps of one run."""
    plan = classic_plan()
    ways = Comparison(
        classic_epsilon,
        "counted",
        ("summed", "composed", "sampled"),
        {"noise_multiplier": plan.noise_multiplier, "steps": plan.steps},
        lambda spent: limit(spent, 0 if spent > LARGE else 2),
    )
    return Picture(
        title=(
            f"After {plan.steps:,} steps: ε = {thousands(ways[0])} if you add up, "
            f"{thousands(ways[1])} if you compose, {ways[2]} if you count the sampling "
            "too"
        ),
        sub=(
            f"ε at δ = 1e-5 over steps; {ways.held}, {BATCH_SIZE} of "
            f"{SAMPLE_SIZE:,} records expected in a batch; add or remove one record"
        ),
        comparisons=(ways,),
        wide=_grow((904, 360), narrow=False),
        narrow=_grow((342, 300), narrow=True),
        head=("steps", "added up", "composed exactly", "with Poisson sampling"),
        rows=tuple(
            (
                f"{g.steps:,}",
                limit(g.summed),
                limit(g.composed),
                limit(g.sampled),
            )
            for g in growth((*SHOWN_STEPS, plan.steps))
        ),
        status="exact",
        note="The lower line is exact. In the other two, every record is used in every "
        "step; adding up is a bound.",
    )


def _grow(size: tuple[int, int], *, narrow: bool) -> Markup:
    total = classic_plan().steps
    steps = tuple(sorted({round(s) for s in Scale(1, total, 0, 1, True).spread(60)}))
    points = growth(steps)
    values = [v for p in points for v in (p.summed, p.composed, p.sampled)]
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    plot = Plot.framed(
        size,
        (1, total),
        (10.0**low, 10.0**high),
        log_x=True,
        log_y=True,
        left=60,
        right=16 if narrow else 170,
    )
    decades = range(low, high + 1, 2 if narrow else 1)
    plot.y_axis([(10.0**p, f"{10.0**p:,g}") for p in decades], "ε, log scale")
    ticks = (1, 100, 10_000) if narrow else SHOWN_STEPS
    plot.x_axis([(t, f"{t:,}") for t in ticks], "steps, log scale")
    lines = (
        ("summed", "s-twin thin dashed", "twin", "added up"),
        ("composed", "s-good thin", "good", "composed exactly"),
        ("sampled", "s-private", "private", "sampling counted"),
    )
    for name, line, words, label in lines:
        curve = [(p.steps, getattr(p, name)) for p in points]
        plot.line(curve, line)
        at, side = (curve[-1], "start") if not narrow else (curve[-12], "end")
        shift = (10.0, 4.5) if not narrow else (0.0, -14.0)
        plot.text(
            at, label, f"{words} halo", "start" if side == "start" else "end", shift
        )
    return plot.svg(
        "Three rising lines on log scales: adding up is highest, exact composition is "
        "far lower, and counting the sampling is lowest by orders of magnitude."
    )


@dataclass(frozen=True)
class BatchCost:
    """One batch size: the noise it needs, and what it would spend at fixed noise."""

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
        """The same over the run, σ / (qN √T), in units of C.

        T steps at a constant learning rate move by a steady gradient times T, and by
        noise times √T.
        """
        return self.noise_per_update / math.sqrt(self.steps)


@cache
def batch_costs() -> tuple[BatchCost, ...]:
    """Return the cost of each batch size at the same number of epochs."""
    return tuple(
        batch_cost(size, TARGET_EPSILON, BATCH_EPOCHS, SAMPLE_SIZE)
        for size in BATCH_SIZES
    )


@cache
def batch_cost(
    expected_batch_size: int, epsilon: float, epochs: float, sample_size: int
) -> BatchCost:
    """Return what a batch size costs at a target and a number of epochs."""
    plan = partial(
        Plan.create,
        expected_batch_size=expected_batch_size,
        sample_size=sample_size,
        epochs=epochs,
        delta=DELTA,
        accountant="exact",
    )
    aimed, fixed = plan(target_epsilon=epsilon), plan(noise_multiplier=FIXED_NOISE)
    return BatchCost(
        expected_batch_size, aimed.steps, aimed.noise_multiplier, fixed.epsilon()
    )


def noise_per_update(
    expected_batch_size: int, epsilon: float, epochs: float, sample_size: int
) -> float:
    """Return the noise on an average gradient, in units of C."""
    cost = batch_cost(expected_batch_size, epsilon, epochs, sample_size)
    return cost.noise_per_update


def noise_over_run(
    expected_batch_size: int, epsilon: float, epochs: float, sample_size: int
) -> float:
    """Return the noise over the run beside a steady gradient, in units of C."""
    return batch_cost(expected_batch_size, epsilon, epochs, sample_size).noise_over_run


@cache
def batch_picture() -> Picture:
    """Return the noise on the average gradient against the batch size, at one ε."""
    costs = batch_costs()
    update, run = (
        Comparison(
            measure,
            "expected_batch_size",
            (BATCH_SIZES[-2], BATCH_SIZES[0]),
            {
                "epsilon": TARGET_EPSILON,
                "epochs": BATCH_EPOCHS,
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
    plot.line(over_run, "s-good")
    for point in over_run:
        plot.dot(point, "f-good", 4)
    plot.text(points[2], "per update", "private halo", "end", (-10, 22))
    plot.text(over_run[1], "over the run", "good halo", "start", (0, 24))
    return plot.svg(
        "Two lines over the expected batch: the noise per update falls all the way, "
        "the noise over the run falls a little and then stays flat."
    )
