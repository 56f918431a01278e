"""Comparisons of one quantity at several values of one setting, all others fixed.

All sides come from one function, called with equal settings except for the varied one.
The text ``held`` is generated from these settings, so it names the values that were
used.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from dpsgd_explorer.experiments.catalogue import DATA_SETS
from dpsgd_explorer.web.questions.rounding import Write

# Text for each setting; other settings are named in the heading of the page.
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
        measure: Function of the fixed settings and the varied setting.
        varied: Name of the setting in which the sides differ.
        values: Values of the varied setting, one per side.
        fixed: Values of all other parameters of ``measure``.
        write: Formats a side as text.
    """

    measure: Callable[..., float]
    varied: str
    values: tuple[Any, ...]
    fixed: Mapping[str, Any]
    write: Write

    def __post_init__(self) -> None:
        """Raise ValueError unless each setting is given once and one has a text."""
        parameters = set(inspect.signature(self.measure).parameters)
        arguments = [*self.fixed, self.varied]
        if len(arguments) != len(set(arguments)) or set(arguments) != parameters:
            raise ValueError(
                f"a comparison gives each of {sorted(parameters)} once, "
                f"got {sorted(arguments)}."
            )
        if not WORDS.keys() & self.fixed.keys():
            raise ValueError(f"a comparison names nothing of {sorted(self.fixed)}.")

    @cached_property
    def sides(self) -> tuple[float, ...]:
        """The quantity at each value of the varied setting."""
        return tuple(
            self.measure(**{**self.fixed, self.varied: value}) for value in self.values
        )

    def __getitem__(self, index: int) -> str:
        """Return a side as text."""
        return self.write(self.sides[index])

    def at(self, index: int) -> str:
        """Return the varied setting of a side, a number, as text."""
        return f"{self.values[index]:g}"

    @property
    def ratio(self) -> float:
        """Ratio of the last side to the first."""
        return self.sides[-1] / self.sides[0]

    @property
    def held(self) -> str:
        """The fixed settings as text."""
        words = [WORDS[name](v) for name, v in self.fixed.items() if name in WORDS]
        return " and ".join(text for text in (", ".join(words[:-1]), words[-1]) if text)
