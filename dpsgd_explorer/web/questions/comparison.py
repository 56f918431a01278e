"""A comparison: one quantity at several values of one setting, all others held fixed.

Both sides come from the same function, which is given the same settings but one.  The
words of what is held fixed come from these settings too, so a sentence that prints
``held`` cannot name other ones than were computed with.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from dpsgd_explorer.experiments.catalogue import DATA_SETS
from dpsgd_explorer.web.questions.rounding import Write

# Setting to words; a setting without words is said in the heading of its page.
WORDS: dict[str, Callable[[Any], str]] = {
    "people": lambda n: f"{n:,} people",
    "epsilon": lambda e: f"ε = {e:g}",
    "prior": lambda p: f"a first belief of {100 * p:g} %",
    "noise_std": lambda s: f"noise of standard deviation {s:g}",
    "noise_multiplier": lambda s: f"σ = {s:g}",
    "sample_rate": lambda q: f"q = {q:.4g}",
    "expected_batch_size": lambda b: f"batches of {b:,}",
    "sample_size": lambda n: f"{n:,} records",
    "steps": lambda t: f"{t:,} steps",
    "epochs": lambda e: f"{e:g} epochs",
    "divided_by": lambda f: f"ε divided by {f:.3g}",
    "share": lambda s: f"a true share of {100 * s:g} %",
    "dataset": lambda name: DATA_SETS[name].label,
    "method": lambda name: {"adassp": "AdaSSP", "ssp": "SSP"}[name],
    "spending": lambda name: f"the {name} way to spend it",
    "repetitions": lambda n: f"{n} releases each",
}


@dataclass(frozen=True)
class Comparison:
    """One quantity at several values of one setting.

    Attributes:
        measure: Called with the fixed settings and a value of the varied one.
        varied: Name of the setting in which the sides differ.
        values: Its values, one a side.
        fixed: All other parameters of ``measure``.
        write: How a side is printed.
    """

    measure: Callable[..., float]
    varied: str
    values: tuple[Any, ...]
    fixed: Mapping[str, Any]
    write: Write

    def __post_init__(self) -> None:
        """Raise ValueError if a setting is left open or given twice, or none named."""
        taken = set(inspect.signature(self.measure).parameters)
        given = [*self.fixed, self.varied]
        if len(given) != len(set(given)) or set(given) != taken:
            raise ValueError(
                f"a comparison gives each of {sorted(taken)} once, got {sorted(given)}."
            )
        if not WORDS.keys() & self.fixed.keys():
            raise ValueError(f"a comparison names nothing of {sorted(self.fixed)}.")

    @cached_property
    def sides(self) -> tuple[float, ...]:
        """The quantity at each value."""
        return tuple(
            self.measure(**{**self.fixed, self.varied: value}) for value in self.values
        )

    def __getitem__(self, place: int) -> str:
        """Return a side as it is printed."""
        return self.write(self.sides[place])

    def at(self, place: int) -> str:
        """Return the varied setting of a side, a number, as it is printed."""
        return f"{self.values[place]:g}"

    @property
    def ratio(self) -> float:
        """The last side over the first."""
        return self.sides[-1] / self.sides[0]

    @property
    def held(self) -> str:
        """What is held fixed, in words."""
        words = [WORDS[name](v) for name, v in self.fixed.items() if name in WORDS]
        return " and ".join(part for part in (", ".join(words[:-1]), words[-1]) if part)
