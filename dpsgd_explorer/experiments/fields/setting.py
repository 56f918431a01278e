"""The description of a setting, and its pydantic field."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from pydantic import BaseModel, Field

from dpsgd_explorer.validation import one_of


@dataclass(frozen=True, kw_only=True)
class Setting:
    """The description of one setting for forms, API, command line and docs.

    Attributes:
        label: Display name.
        help: One or two sentences below the field.
        symbol: Letter in the formulas, "" without one.
        unit: Unit of the value, "" for a choice or a pure number.
        choices: Allowed values and their labels; None for a number.
        marks: Evenly spaced stops of the slider; equal gaps make it linear, equal
            ratios logarithmic.
        ends: Improvements towards the low and the high end of the slider.
        step: Smallest sensible change.
        words: The domain in words, if neither choices nor limits express it.
        gt, ge, lt, le: Widest domain that any model allows, as in pydantic.
    """

    label: str
    help: str
    symbol: str = ""
    unit: str = ""
    choices: Mapping[str, str] | None = None
    marks: tuple[float, ...] = ()
    ends: tuple[str, str] | None = None
    step: float | None = None
    words: str = ""
    gt: float | None = None
    ge: float | None = None
    lt: float | None = None
    le: float | None = None

    @property
    def limits(self) -> dict[str, float]:
        """The domain as keyword arguments of pydantic's ``Field``."""
        limits = {"gt": self.gt, "ge": self.ge, "lt": self.lt, "le": self.le}
        return {name: limit for name, limit in limits.items() if limit is not None}

    def narrowed(self, **changes: Any) -> Setting:
        """Return the setting with the changes of one model.

        A new limit replaces the limit on its side.

        Raises:
            ValueError: a limit would widen the domain.
        """
        if changes.keys() & {"gt", "ge"}:
            changes = {"gt": None, "ge": None} | changes
        if changes.keys() & {"lt", "le"}:
            changes = {"lt": None, "le": None} | changes
        setting = replace(self, **changes)
        if not setting._is_within(self):
            raise ValueError(f"{setting.limits} must lie within {self.limits}.")
        return setting

    def _is_within(self, widest: Setting) -> bool:
        """Return whether each limit that is set is within the limits of ``widest``."""
        low, high = _first(self.gt, self.ge), _first(self.lt, self.le)
        widest_low = _first(widest.gt, widest.ge)
        widest_high = _first(widest.lt, widest.le)
        return (
            (low is None or widest_low is None or low >= widest_low)
            and (high is None or widest_high is None or high <= widest_high)
            and not (self.ge is not None and self.ge == widest.gt)
            and not (self.le is not None and self.le == widest.lt)
        )

    def field(self, default: Any, group: str) -> Any:
        """Return a pydantic field; its schema holds all that a form shows."""
        schema: dict[str, Any] = {
            "label": self.label,
            "help": self.help,
            "group": group,
        }
        schema |= {"symbol": self.symbol, "step": self.step}
        schema |= {"marks": list(self.marks), "ends": self.ends}
        if self.words:
            schema["domain"] = self.words
        if self.choices is not None:
            schema |= {"choices": dict(self.choices), "enum": list(self.choices)}
        limits: dict[str, Any] = self.limits
        return Field(
            default,
            title=self.label,
            description=self.help,
            json_schema_extra=schema,
            **limits,
        )


def check_choices(settings: BaseModel, **more: str) -> None:
    """Reject a value that is not among the choices of its setting.

    Args:
        settings: The settings.
        more: An additional choice by name of the setting.

    Raises:
        ConfigError: names the setting, its choices and the value.
    """
    for name, field in type(settings).model_fields.items():
        extra = field.json_schema_extra
        choices = extra.get("choices") if isinstance(extra, dict) else None
        if isinstance(choices, dict):
            allowed = [*choices, *([more[name]] if name in more else [])]
            one_of(name, getattr(settings, name), allowed)


def _first(*limits: float | None) -> float | None:
    return next((limit for limit in limits if limit is not None), None)
