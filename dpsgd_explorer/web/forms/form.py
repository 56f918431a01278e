"""The settings form: made from TrainingConfig's metadata, filled with what was typed.

Nothing here names a setting's domain, label or help; those stand in the config.
What is said here is how a page asks: which two settings exclude each other, and
which can wait in a fold.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from typing import Any

from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.experiments.catalogue import DATA_SETS, MODELS
from dpsgd_explorer.experiments.training_config import TrainingConfig

NOT_ASKED = frozenset({"kind"})
FOLDED = frozenset(
    {
        "delta",
        "clipping_fn",
        "clipping_mode",
        "engine",
        "accountant",
        "optimizer",
        "momentum",
        "stop_at_epsilon",
        "evaluations",
    }
)
SMALL = 0.01  # marks below it are written as powers of ten
FORM_SYMBOLS = {"seed": "", "steps": ""}  # the box is labelled well enough without


@dataclass(frozen=True)
class Switch:
    """Two settings of which exactly one is given, and the radio that says which."""

    name: str
    label: str
    members: dict[str, str]


SWITCHES = (
    Switch(
        "fix",
        "What to fix",
        {"target_epsilon": "target ε", "noise_multiplier": "noise σ"},
    ),
    Switch("duration", "Length of the run in", {"steps": "steps", "epochs": "epochs"}),
)


@dataclass(frozen=True, kw_only=True)
class FormField:
    """One setting as the page asks for it.

    Attributes:
        kind: "integer", "number", "boolean" or "choice".
        switch: Name of the switch it hangs on, "" if none.
        optional: An empty box means "not set".
        private_only: It says nothing about a run without privacy.
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
    folded: bool
    optional: bool
    private_only: bool

    @property
    def mark_texts(self) -> list[str]:
        """The words under the slider's marks."""
        return [_short(mark) for mark in self.marks]

    def position(self, text: str) -> float:
        """Return where a typed value stands on the slider; 0 if it is no number."""
        try:
            return slider_position(self.marks, float(text))
        except ValueError:
            return 0.0

    @property
    def opens_switch(self) -> bool:
        """Whether the radio of its switch stands before it."""
        return any(next(iter(s.members)) == self.name for s in SWITCHES)

    def for_script(self) -> dict[str, Any]:
        """Return what the page's script needs to know."""
        names = (
            "name",
            "label",
            "kind",
            "choices",
            "marks",
            "step",
            "switch",
            "optional",
            "default",
        )
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True)
class Form:
    """The typed text of each setting, what is wrong with it, and the config if nothing.

    Attributes:
        texts: What the boxes show, by setting.
        errors: A message for each setting that was found wrong.
        strangers: Messages about what is in the address and is no setting.
        config: The settings, None while one is wrong.
    """

    texts: dict[str, str]
    errors: dict[str, str] = field(default_factory=dict)
    strangers: list[str] = field(default_factory=list)
    config: TrainingConfig | None = None

    @property
    def chosen(self) -> dict[str, str]:
        """The member of each switch that counts: what is filled in, or has to be."""
        asked = {name for name, text in self.texts.items() if text} | self.errors.keys()
        return {
            switch.name: next(
                (name for name in switch.members if name in asked),
                next(iter(switch.members)),
            )
            for switch in SWITCHES
        }

    def opens(self, fields: list[FormField]) -> bool:
        """Whether a fold must be open: something in it is wrong or out of the usual."""
        return any(
            ask.name in self.errors or self.texts[ask.name] != ask.default
            for ask in fields
        )


@cache
def form_fields() -> dict[str, FormField]:
    """Return every setting that is asked for, in the config's order."""
    schema = TrainingConfig.model_json_schema()["properties"]
    return {
        name: _form_field(name, about)
        for name, about in schema.items()
        if name not in NOT_ASKED and len(about.get("choices", "many")) > 1
    }


def form_groups() -> dict[str, list[FormField]]:
    """Return the settings under their headings."""
    groups: dict[str, list[FormField]] = {}
    for ask in form_fields().values():
        groups.setdefault(ask.group, []).append(ask)
    return groups


def read_form(query: Mapping[str, str]) -> Form:
    """Read an address; whatever is wrong with it, everything typed is kept."""
    fields = form_fields()
    given = {name: text.strip() for name, text in query.items()}
    switches = {switch.name: given.pop(switch.name, "") for switch in SWITCHES}
    known = {name: given.pop(name) for name in list(given) if name in fields}
    strangers = [
        f"There is no setting {name!r}; it is ignored."
        for name, text in given.items()
        if text
    ]
    _drop_unchosen(known, switches)
    errors = empty_boxes(fields, known)
    try:
        config = TrainingConfig.from_query(known)
        config.plan  # noqa: B018  a target that no noise reaches shows only here
    except ConfigError as error:
        errors |= {name: in_words(name, text) for name, text in error.fields.items()}
    if errors:
        return Form(_texts(known), errors, strangers)
    return Form(_texts(known), strangers=strangers, config=config)


def empty_boxes(
    fields: Mapping[str, FormField], texts: Mapping[str, str]
) -> dict[str, str]:
    """Return a message for each box that came empty and must hold something."""
    return {
        name: f"{fields[name].label} must be given."
        for name, text in texts.items()
        if not text and not fields[name].optional
    }


def in_words(name: str, message: str) -> str:
    """Return a message with the setting's label for its name in the first place."""
    ask = form_fields().get(name)
    if ask is None or not message.startswith(name):
        return message
    return ask.label + message.removeprefix(name)


def to_query(config: TrainingConfig) -> dict[str, str]:
    """Return the address of a configuration: every setting that is asked for."""
    values = config.model_dump(mode="json")
    return {
        name: text_of(values[name])
        for name in form_fields()
        if values[name] is not None
    }


def fitting_models() -> dict[str, list[str]]:
    """Return the models that can be trained on each data set."""
    return {
        dataset: [name for name, model in MODELS.items() if dataset in model.parameters]
        for dataset in DATA_SETS
    }


def slider_position(marks: Sequence[float], value: float) -> float:
    """Return the place of a value between evenly spaced marks: 0 on the first."""
    if not marks[0] < value < marks[-1]:  # NaN stands at the end, like the infinite
        return 0.0 if value <= marks[0] else len(marks) - 1.0
    low = bisect_right(marks, value) - 1
    a, b = marks[low], marks[low + 1]
    if evenly_spaced(marks):
        return low + (value - a) / (b - a)
    return low + math.log(value / a) / math.log(b / a)


def evenly_spaced(marks: Sequence[float]) -> bool:
    """Whether a slider's marks are equally far apart; else equal ratios are meant."""
    gaps = [b - a for a, b in pairwise(marks)]
    return all(math.isclose(gap, gaps[0]) for gap in gaps)


def _short(mark: float) -> str:
    if 0 < mark < SMALL:
        return f"{mark:.0e}".replace("e-0", "e-")
    if mark < 10_000:
        return f"{mark:,.12g}"
    return f"{mark / (1000 if mark % 1000 == 0 else 1024):.0f}k"


def _form_field(name: str, about: dict[str, Any]) -> FormField:
    kinds = {about.get("type")} | {one.get("type") for one in about.get("anyOf", [])}
    switch = next((s.name for s in SWITCHES if name in s.members), "")
    default = TrainingConfig().model_dump(mode="json")[name]
    return FormField(
        name=name,
        label=about["label"],
        help=about["help"],
        group=about["group"],
        symbol=FORM_SYMBOLS.get(name, about["symbol"]),
        kind=_kind(about, kinds),
        choices=about.get("choices", {}),
        marks=about["marks"],
        ends=about["ends"],
        step=about["step"],
        default=text_of(default),
        switch=switch,
        folded=name in FOLDED,
        optional="null" in kinds and not switch,
        private_only=about["group"] == "Privacy" and name != "private",
    )


def _kind(about: dict[str, Any], kinds: set[Any]) -> str:
    if "choices" in about:
        return "choice"
    return next(kind for kind in ("boolean", "integer", "number") if kind in kinds)


def _drop_unchosen(known: dict[str, str], switches: Mapping[str, str]) -> None:
    """Leave the member of each switch that counts, where both are in the address.

    A form without script sends both: the radio says which one, else the one that is
    filled in does.
    """
    for switch in SWITCHES:
        given = {name: known.pop(name) for name in switch.members if name in known}
        filled = {name: text for name, text in given.items() if text}
        if (choice := switches[switch.name]) in switch.members:
            filled = {choice: given[choice]} if choice in given else {}
        known |= filled or dict(list(given.items())[:1])


def _texts(known: Mapping[str, str]) -> dict[str, str]:
    """Return the text of every box: what was typed, else the default."""
    texts = {name: ask.default for name, ask in form_fields().items()}
    for switch in SWITCHES:
        if switch.members.keys() & known.keys():
            texts |= dict.fromkeys(switch.members, "")
    return texts | dict(known)


def text_of(value: object) -> str:
    """Return a value as one types it: 8, 0.1, 1e-5, true."""
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, bool):
        return str(value).lower()
    return (
        f"{value:.15g}".replace("e-0", "e-") if isinstance(value, float) else str(value)
    )
