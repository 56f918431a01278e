"""What every question of the labs and of the API has in common."""

from __future__ import annotations

from typing import Self

from pydantic import BaseModel, ConfigDict, model_validator

from dpsgd_explorer.experiments.fields.setting import check_choices


class Question(BaseModel):
    """A question; an instance that exists is valid.

    Raises:
        ConfigError: a setting is none of its choices.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    @model_validator(mode="after")
    def _choices_are_known(self) -> Self:
        check_choices(self)
        return self
