"""The base class of all questions of the labs and the API."""

from __future__ import annotations

from typing import Self

from pydantic import BaseModel, ConfigDict, model_validator

from dpsgd_explorer.experiments.fields.setting import check_choices


class Question(BaseModel):
    """A question; every instance is valid.

    Raises:
        ConfigError: a value is not among the choices of its setting.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    @model_validator(mode="after")
    def _choices_are_known(self) -> Self:
        check_choices(self)
        return self
