"""The base class of the settings of runs, and the limit of a run's cost.

Every instance is valid; nothing downstream checks it again.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.experiments.fields.messages import config_error
from dpsgd_explorer.experiments.fields.setting import check_choices
from dpsgd_explorer.experiments.own_table import OwnTable

KIND_HELP = "Kind of run. It decides which other settings there are."


class RunConfig(BaseModel, ABC):
    """The settings of one run; each kind of run has a subclass.

    Attributes:
        TO_COST_LESS: Remedy, other than a shorter run, for a run that costs too much.
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, allow_inf_nan=False
    )

    TO_COST_LESS: ClassVar[str]

    kind: str

    @property
    @abstractmethod
    def planned_steps(self) -> int:
        """Steps of the run, if nothing ends it early."""

    @property
    @abstractmethod
    def length_setting(self) -> str:
        """Name of the setting that determines the length of the run."""

    @property
    @abstractmethod
    def cost(self) -> float:
        """Cost of the whole run, in multiply-adds or their equivalent in time."""

    @property
    def data_set_name(self) -> str:
        """Name of the data set of the run; "" for a kind without a choice of one."""
        return ""

    @property
    def own_table(self) -> OwnTable | None:
        """The visitor's table that the run reads; None for any other data."""
        return None

    def check_reachable(self) -> None:
        """Raise ConfigError if no run can satisfy all settings together."""

    def changed(self, values: Mapping[str, Any]) -> Self:
        """Return the settings after a mid-run change; see ``TrainingConfig``.

        Raises:
            ConfigError: a setting cannot be changed, or its value is not allowed.
        """
        for name in values:
            raise ConfigError(
                name,
                f"{name} cannot be changed while this run trains; start another run.",
            )
        return self

    def after(self, _step: int, values: Mapping[str, Any]) -> Self:
        """Return the settings after a change made after ``_step`` steps.

        Raises:
            ConfigError: see ``changed``.
        """
        return self.changed(values)

    @property
    def why_not_continued(self) -> str:
        """Reason why the run cannot be continued after its end; "" if it can."""
        return f"it is a run of kind {self.kind}; start another one."

    def guaranteed(self, epsilon: float | None) -> float | None:
        """Return the guaranteed ε of a run with the counted ε."""
        return epsilon

    @classmethod
    def parse(cls, values: object) -> Self:
        """Build the settings from JSON values.

        Raises:
            ConfigError: names each invalid field, its rule and its value.
        """
        return cls._build(values)

    @classmethod
    def from_query(cls, values: Mapping[str, str]) -> Self:
        """Build the settings from a query string or form; "" counts as not given."""
        texts = {name: text for name, text in values.items() if text}
        values_read = {
            name: _from_text(cls, name, text) for name, text in texts.items()
        }
        return cls._build(values_read, texts)

    @classmethod
    def _build(cls, values: object, texts: Mapping[str, str] | None = None) -> Self:
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            raise config_error(error, cls, texts) from None

    @model_validator(mode="after")
    def _choices_are_known(self) -> Self:
        self._check_choices()
        return self

    def _check_choices(self) -> None:
        check_choices(self)


def check_cost(config: RunConfig, maximum: float) -> None:
    """Raise ConfigError, naming the field to lower, if a run costs too much."""
    if config.cost > maximum:
        field = config.length_setting
        raise ConfigError(
            field,
            f"{field}: a run may need at most {maximum:.2g} multiply-adds, got "
            f"{config.cost:.2g}. Take fewer {field}, {config.TO_COST_LESS}.",
        )


def check_pair(config: RunConfig, first: str, second: str) -> None:
    """Raise ConfigError if two settings that exclude each other are both set."""
    a, b = getattr(config, first), getattr(config, second)
    if a is not None and b is not None:
        raise ConfigError(
            first,
            f"give {first} or {second}, not both, got {first} = {a:g} "
            f"and {second} = {b:g}.",
        )


def evenly_spent(steps: int, points: int) -> list[int]:
    """Return about ``points`` steps up to the last, evenly spread over ε.

    ε grows roughly with the square root of the steps, so the steps grow quadratically.
    """
    return sorted({math.ceil(steps * (i / points) ** 2) for i in range(1, points + 1)})


def _from_text(cls: type[BaseModel], name: str, text: str) -> object:
    """Return the number or bool that the field takes, else the text unchanged."""
    field = cls.model_fields.get(name)
    annotation = str(field.annotation) if field else ""
    if "bool" in annotation:
        return {"true": True, "1": True, "on": True, "false": False, "0": False}.get(
            text.lower(), text
        )
    for kind in (int, float):
        if kind.__name__ in annotation:
            try:
                return kind(text)
            except ValueError:
                continue
    return text
