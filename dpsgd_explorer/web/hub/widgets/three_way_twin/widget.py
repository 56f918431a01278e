"""Three-way twin: what clipping costs and what noise costs, measured on recorded runs.

For each seed, ``record.py`` trained a private run, a run with clipping but no noise,
and an ordinary run, from equal initial parameters on equal batches.  Each kind was
trained at its tuned learning rate and at the tuned rates of the other kinds.

Misconception: "Privacy costs accuracy because of the noise alone", and "runs are
    compared fairly at the same learning rate"
Content: a private, a clipped and an ordinary run from the same weights on the same
    batches: what clipping takes and what noise takes, over three seeds, at rates of
    their own and at one rate
Source: our own recorded runs (`web/hub/widgets/three_way_twin/record.py`); that tuning
    decides such comparisons: De et al. 2022, arXiv:2204.13650
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from statistics import mean
from typing import Any

from markupsafe import Markup

from dpsgd_explorer.experiments.catalogue import MODELS
from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.web.figures.svg import Picture, Plot, fanned, small
from dpsgd_explorer.web.forms.starts import Choices
from dpsgd_explorer.web.hub.widgets.base import Widget
from dpsgd_explorer.web.questions.rounding import nearest, percent
from dpsgd_explorer.web.recorded.files import recording
from dpsgd_explorer.web.recorded.runs import beside_defaults

stored = partial(recording, "recorded", Path(__file__).parent)
ORDINARY, CLIPPED, PRIVATE = "ordinary", "clipped only", "private"
KINDS = {ORDINARY: "twin", CLIPPED: "good", PRIVATE: "private"}  # and their colours
MINUS = "\N{MINUS SIGN}"
OWN = 0.0  # choice of the tuned learning rate of each kind


@dataclass(frozen=True)
class Part:
    """Percentage points of accuracy that one of the two changes takes.

    Attributes:
        by_seed: One number per seed.
    """

    by_seed: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Mean over the seeds."""
        return mean(self.by_seed)

    @property
    def words(self) -> str:
        """The mean as text."""
        return signed(self.mean, 1)

    @property
    def spread(self) -> str:
        """The smallest and the largest number, as text."""
        return f"{signed(min(self.by_seed), 2)} to {signed(max(self.by_seed), 2)}"


@dataclass(frozen=True)
class Choice:
    """Learning rates of the three kinds."""

    rates: dict[str, float]

    @property
    def is_own(self) -> bool:
        """If True, each kind has its tuned rate."""
        return bool(self.rates == stored()["own_rates"])

    @property
    def name(self) -> str:
        """The choice in a few words."""
        return "each its own" if self.is_own else f"all at {self.rates[PRIVATE]:g}"

    def ends(self, kind: str) -> tuple[float, ...]:
        """Returns the accuracy at the end, one of each seed."""
        return tuple(curve[-1] for curve in curves(kind, self.rates[kind]))

    @property
    def clipping(self) -> Part:
        """What clipping takes: ordinary less clipped only, seed by seed."""
        return _less(self.ends(ORDINARY), self.ends(CLIPPED))

    @property
    def noise(self) -> Part:
        """What noise takes: clipped only less private, seed by seed."""
        return _less(self.ends(CLIPPED), self.ends(PRIVATE))

    @property
    def total(self) -> Part:
        """What both take together."""
        return _less(self.ends(ORDINARY), self.ends(PRIVATE))

    @property
    def conclusion(self) -> str:
        """The split in a sentence."""
        clipping, noise = self.clipping.words, self.noise.words
        if self.is_own:
            return (
                f"Of {self.total.words} points of accuracy lost, clipping takes "
                f"{clipping} and noise {noise}"
            )
        [owner] = [kind for kind in KINDS if own_rate(kind) == self.rates[kind]]
        return (
            f"All at the rate of “{owner}”: clipping seems to take {clipping} points, "
            f"noise {noise}"
        )


def curves(kind: str, rate: float) -> list[list[float]]:
    """Returns the accuracy curves, one list per seed."""
    recorded: list[list[float]] = stored()["test_accuracy"][kind][f"{rate:g}"]
    return recorded


def own_rate(kind: str) -> float:
    """Returns the learning rate that suits a kind."""
    rate: float = stored()["own_rates"][kind]
    return rate


@cache
def choices() -> tuple[Choice, ...]:
    """Returns the choice of tuned rates, then each of these rates for all kinds."""
    tuned = stored()["own_rates"]
    same = [dict.fromkeys(tuned, rate) for rate in sorted(tuned.values())]
    return (Choice(tuned), *map(Choice, same))


def shared_rates() -> tuple[float, ...]:
    """Returns the rate of all kinds in each choice; ``OWN`` for the first."""
    return tuple(
        OWN if choice.is_own else choice.rates[PRIVATE] for choice in choices()
    )


@cache
def private_config() -> TrainingConfig:
    """Returns the settings of the private run of the first seed, at its own rate."""
    recorded = stored()
    more = {"learning_rate": own_rate(PRIVATE), "seed": recorded["seeds"][0]}
    return TrainingConfig.parse(recorded["config"] | recorded["kinds"][PRIVATE] | more)


def private_settings() -> dict[str, Any]:
    """Returns the private run's settings that differ from the trainer's defaults."""
    return beside_defaults(private_config())


def lost() -> str:
    """Returns the cost of privacy at tuned rates, in points."""
    return choices()[0].total.words


def larger_part() -> str:
    """Returns the more costly change and its cost."""
    tuned = choices()[0]
    parts = {"clipping": tuned.clipping, "noise": tuned.noise}
    name = max(parts, key=lambda part: parts[part].mean)
    return f"{name}: {parts[name].words} of {tuned.total.words}"


def settings() -> str:
    """Returns the shared settings of all runs, in words."""
    config = private_config()
    return (
        f"{config.data.label}, {MODELS[config.model].label.lower()}, "
        f"{config.plan.steps} steps of {config.plan.expected_batch_size:,} expected "
        f"records; the private run clips at C = {config.max_grad_norm:g} and ends at "
        f"ε = {config.target_epsilon:g}, δ = {small(config.delta)}"
    )


@cache
def data() -> dict[str, Any]:
    """Returns the curves of each kind and rate, and the split of each choice."""
    recorded = stored()
    return {
        "settings": settings(),
        "seeds": len(recorded["seeds"]),
        "steps": recorded["steps"],
        "kinds": [
            {"name": name, "words": _words(name), "colour": colour}
            for name, colour in KINDS.items()
        ],
        "curves": {
            kind: {rate: _band(runs) for rate, runs in by_rate.items()}
            for kind, by_rate in recorded["test_accuracy"].items()
        },
        "choices": [
            {
                "name": choice.name,
                "conclusion": choice.conclusion,
                "floor": floor(choice),
                "rates": {kind: f"{rate:g}" for kind, rate in choice.rates.items()},
                "ends": {k: percent(mean(choice.ends(k)), 2) for k in KINDS},
                "parts": [
                    {
                        "name": name,
                        "colour": KINDS[kind],
                        "mean": round(part.mean, 3),
                        "each": [round(points, 2) for points in part.by_seed],
                        "words": f"{part.words} points ({part.spread})",
                    }
                    for name, kind, part in (
                        ("clipping", CLIPPED, choice.clipping),
                        ("noise", PRIVATE, choice.noise),
                    )
                ],
            }
            for choice in choices()
        ],
    }


@cache
def picture() -> Picture:
    """Returns the chart of the three kinds at their tuned rates."""
    tuned = choices()[0]
    runs = stored()
    return Picture(
        title=tuned.conclusion,
        sub=f"Test accuracy over steps; learning rates: {tuned.name}; {settings()}",
        wide=_draw((904, 380), tuned),
        narrow=_draw((342, 320), tuned),
        head=(
            "learning rate",
            "ordinary, not private, %",
            "clipped only, not private, %",
            "private, %",
            "clipping takes, points",
            "noise takes, points",
        ),
        rows=tuple(
            (
                choice.name,
                *(percent(mean(choice.ends(kind)), 2) for kind in KINDS),
                f"{choice.clipping.words} ({choice.clipping.spread})",
                f"{choice.noise.words} ({choice.noise.spread})",
            )
            for choice in choices()
        ),
        kind="recorded",
        note=(
            f"Mean of {len(runs['seeds'])} seeds; brackets in the table contain the "
            "smallest and the largest. For each seed, the three runs share batches "
            "and first weights. Each own rate is the best of a grid of doublings on "
            f"the test records, with {len(runs['tuning']['seeds'])} other seeds; no "
            "ε covers that search."
        ),
    )


def floor(choice: Choice) -> int:
    """Returns the start of the accuracy axis in percent, below all final accuracies."""
    least = min(mean(choice.ends(kind)) for kind in KINDS)
    return 5 * int((100 * least - 2) // 5)


def signed(value: float, digits: int) -> str:
    """Returns a number to nearest, with a true minus; a rounded zero has none."""
    text = nearest(value, digits)
    return text.replace("-", "" if float(text) == 0 else MINUS)


def _less(first: tuple[float, ...], second: tuple[float, ...]) -> Part:
    return Part(tuple(100 * (a - b) for a, b in zip(first, second, strict=True)))


def _words(kind: str) -> str:
    return kind if kind == PRIVATE else f"{kind}, not private"


def _band(runs: list[list[float]]) -> dict[str, list[float]]:
    """Returns mean, least and largest of the seeds at each step, in percent."""
    by_step = [[100 * value for value in values] for values in zip(*runs, strict=True)]
    return {
        "mean": [round(mean(values), 2) for values in by_step],
        "low": [round(min(values), 2) for values in by_step],
        "high": [round(max(values), 2) for values in by_step],
    }


def _draw(size: tuple[int, int], choice: Choice) -> Markup:
    is_narrow = size[0] < 500
    steps, low = stored()["steps"], floor(choice)
    right = 12 if is_narrow else 190
    plot = Plot.framed(size, (0, steps[-1]), (low, 100), right=right)
    plot.y_axis([(y, f"{y}") for y in range(low, 101)], "test accuracy, %")
    marks = range(0, steps[-1] + 1, 100)
    plot.x_axis([(step, f"{step}") for step in marks], "steps")
    ends = []
    for kind, colour in KINDS.items():
        values = _band(curves(kind, choice.rates[kind]))["mean"]
        below = [i for i, value in enumerate(values) if value < low]
        first = below[-1] + 1 if below else 0
        points = list(zip(steps, values, strict=True))[first:]
        plot.line(points, f"s-{colour}{' dashed' if kind == ORDINARY else ''}")
        ends.append((points[-1], _words(kind), colour))
    heights = [plot.y(point[1]) for point, _, _ in ends]
    listed = [plot.y.start - 58 + 18 * i for i in range(len(ends))]
    places = listed if is_narrow else fanned(heights)
    for (point, words, colour), height, to in zip(ends, heights, places, strict=True):
        up = to - height + 4.5
        if is_narrow:
            plot.text(point, words, f"{colour} halo", "end", (-8, up))
        else:
            plot.text(point, words, f"{colour} halo", "start", (10, up))
    return plot.svg(
        "Three rising lines: ordinary training ends highest, clipping without noise a "
        "little lower, and the private run lowest."
    )


WIDGET = Widget(
    slug="three-way-twin",
    title="Three-way twin",
    picture=picture,
    data=data,
    controls={"rate": "Learning rate of all models, 0: each has its own"},
    starts={"rate": (Choices(shared_rates()),)},
    helpers={"private_settings": private_settings},
)
