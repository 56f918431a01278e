"""Form fields, generated from the metadata of a model's settings.

A setting declares its own label, domain, help text and slider marks.  ``LAYOUTS`` adds
the decisions of a page: settings that exclude each other, and settings that are always
in view.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from typing import Any

from pydantic import BaseModel

from dpsgd_explorer.experiments.own_table import is_own
from dpsgd_explorer.experiments.training_config import TrainingConfig

SMALL = 0.01  # marks below this value are written as powers of ten
KINDS = ("boolean", "integer", "number", "string")  # JSON types, in order of precedence
SCRIPT_ATTRIBUTES = (
    "name",
    "label",
    "symbol",
    "kind",
    "choices",
    "marks",
    "step",
    "switch",
    "optional",
    "default",
    "group",
    "symbol",
    "basic",
    "private_only",
)


@dataclass(frozen=True)
class Switch:
    """A radio button that selects one of two settings; the other one is not set."""

    name: str
    label: str
    members: dict[str, str]


@dataclass(frozen=True)
class Layout:
    """A page's arrangement of the fields of a model.

    Attributes:
        switches: Pairs of settings that exclude each other.
        basic: Settings that are always in view, in their order; the others are behind
            "All settings".
        symbols: Replacements of the settings' symbols; "" removes a symbol.
        has_private_group: If True, the group "Privacy" has no effect on a run without
            privacy.
    """

    switches: tuple[Switch, ...] = ()
    basic: tuple[str, ...] = ()
    symbols: tuple[tuple[str, str], ...] = ()
    has_private_group: bool = False


LAYOUTS: dict[type[BaseModel], Layout] = {
    TrainingConfig: Layout(
        switches=(
            Switch(
                "fix",
                "Fixed quantity",
                {"target_epsilon": "target ε", "noise_multiplier": "noise σ"},
            ),
            Switch(
                "duration",
                "Length of the run in",
                {"steps": "steps", "epochs": "epochs"},
            ),
        ),
        basic=(
            "dataset",
            "target_epsilon",
            "noise_multiplier",
            "max_grad_norm",
            "expected_batch_size",
            "learning_rate",
        ),
        symbols=(("seed", ""), ("steps", "")),
        has_private_group=True,
    ),
}


@dataclass(frozen=True, kw_only=True)
class FormField:
    """The form field of one setting.

    Attributes:
        kind: "integer", "number", "boolean", "string" or "choice".
        switch: Name of the field's switch, "" if none.
        opens_switch: If True, the field is the first member of its switch.
        optional: If True, an empty box means "not set".
        private_only: If True, the field has no effect on a run without privacy.
    """

    name: str
    label: str
    help: str
    group: str
    symbol: str
    kind: str
    choices: dict[str, str]
    marks: list[float]
    ends: tuple[str, str] | None
    step: float | None
    default: str
    switch: str
    opens_switch: bool
    basic: bool
    optional: bool
    private_only: bool

    @property
    def mark_texts(self) -> list[str]:
        """Labels of the slider's marks."""
        return [_short(mark) for mark in self.marks]

    def position(self, text: str) -> float:
        """Returns the slider position of a typed value; 0 for text without a number."""
        try:
            return slider_position(self.marks, float(text))
        except ValueError:
            return 0.0

    def in_words(self, value: object) -> str:
        """Returns the display text of a value."""
        if self.kind == "boolean":
            return "on" if value else "off"
        text = text_of(value)
        return self.choices.get(text, "own table" if is_own(text) else text)

    def offering(self, choices: Mapping[str, str]) -> FormField:
        """Returns the field with additional choices."""
        return replace(self, choices=self.choices | dict(choices)) if choices else self

    def for_script(self) -> dict[str, Any]:
        """Returns the attributes that the page's script uses."""
        return {name: getattr(self, name) for name in SCRIPT_ATTRIBUTES}


def layout_of(model: type[BaseModel]) -> Layout:
    """Returns the layout of a model's form; the default layout if it has none."""
    return LAYOUTS.get(model, Layout())


@cache
def form_fields(model: type[BaseModel]) -> dict[str, FormField]:
    """Returns the fields of a model's form, in the model's order.

    A setting has a field if it has a label and more than one choice.
    """
    schemas = model.model_json_schema()["properties"]
    defaults = model().model_dump(mode="json")  # validators complete some values
    return {
        name: _form_field(name, schema, layout_of(model), defaults[name])
        for name, schema in schemas.items()
        if "label" in schema and len(schema.get("choices", "many")) > 1
    }


def form_groups(model: type[BaseModel]) -> dict[str, list[FormField]]:
    """Returns the fields of a model's form by heading."""
    groups: dict[str, list[FormField]] = {}
    for field in form_fields(model).values():
        groups.setdefault(field.group, []).append(field)
    return groups


def script_fields(model: type[BaseModel]) -> list[dict[str, Any]]:
    """Returns the fields of a model's form for the page's script."""
    return [field.for_script() for field in form_fields(model).values()]


def slider_position(marks: Sequence[float], value: float) -> float:
    """Returns a value's position between evenly spaced marks; the first mark is 0."""
    if not marks[0] < value < marks[-1]:  # NaN and infinity are placed at the end
        return 0.0 if value <= marks[0] else len(marks) - 1.0
    low = bisect_right(marks, value) - 1
    a, b = marks[low], marks[low + 1]
    if evenly_spaced(marks):
        return low + (value - a) / (b - a)
    return low + math.log(value / a) / math.log(b / a)


def evenly_spaced(marks: Sequence[float]) -> bool:
    """Returns True for equal differences of marks, False for equal ratios."""
    gaps = [b - a for a, b in pairwise(marks)]
    return all(math.isclose(gap, gaps[0]) for gap in gaps)


def text_of(value: object) -> str:
    """Returns a value as a user types it: 8, 0.1, 1e-5, true."""
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, bool):
        return str(value).lower()
    return (
        f"{value:.15g}".replace("e-0", "e-") if isinstance(value, float) else str(value)
    )


def _form_field(
    name: str, schema: dict[str, Any], layout: Layout, default: object
) -> FormField:
    types = {
        schema_part.get("type") for schema_part in (schema, *schema.get("anyOf", ()))
    }
    switch = next((s for s in layout.switches if name in s.members), None)
    is_choice = "choices" in schema
    return FormField(
        name=name,
        label=schema["label"],
        help=schema["help"],
        group=schema["group"],
        symbol=dict(layout.symbols).get(name, schema["symbol"]),
        kind="choice" if is_choice else next(kind for kind in KINDS if kind in types),
        choices=schema.get("choices", {}),
        marks=schema["marks"],
        ends=schema["ends"],
        step=schema["step"],
        default=text_of(default),
        switch=switch.name if switch else "",
        opens_switch=switch is not None and name == next(iter(switch.members)),
        basic=name in layout.basic,
        optional="null" in types and switch is None,
        private_only=layout.has_private_group
        and schema["group"] == "Privacy"
        and name != "private",
    )


def _short(mark: float) -> str:
    if 0 < mark < SMALL:
        return f"{mark:.0e}".replace("e-0", "e-")
    if mark < 10_000:
        return f"{mark:,.12g}"
    return f"{mark / (1000 if mark % 1000 == 0 else 1024):.0f}k"
