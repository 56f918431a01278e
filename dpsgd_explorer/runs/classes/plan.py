"""The settings that a teacher chooses for a class: name, quotas and duration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.quotas import Quotas
from dpsgd_explorer.runs.store.labels import checked_name

DEFAULT_DAYS = 14
MAX_DAYS = 366  # if the site sets no limit
MAX_LAUNCHES = 1_000_000  # launches, if the site sets no limit
MAX_NICKNAME_LENGTH = 30
MAX_SETUP_LENGTH = 2000


@dataclass(frozen=True, kw_only=True)
class ClassPlan:
    """Settings of a new class.

    Attributes:
        name: Displayed name, 1 to 60 printable characters.
        launches: Number of runs that all members may launch together; None uses the
            default of the site.
        launches_each: Number of runs that one student may launch; None uses the
            default of the site.
        days: Duration in days; None uses the default.
        setup: Query string of the trainer page that students start from; "" uses the
            default settings.
        shares_runs: If True, students see each other and each other's runs.
    """

    name: str
    launches: int | None = None
    launches_each: int | None = None
    days: int | None = None
    setup: str = ""
    shares_runs: bool = True

    def checked(self, quotas: Quotas) -> dict[str, Any]:
        """Returns the values, with defaults in place of None.

        Raises:
            ConfigError: A value is outside its domain.
        """
        usual = default_plan(quotas)
        launches = usual.launches if self.launches is None else self.launches
        per_student = self.launches_each
        if per_student is None:
            per_student = min(usual.launches_each or 1, launches or 1)
        days = usual.days if self.days is None else self.days
        name = " ".join(checked_name("name", self.name).split())
        if not name:
            raise ConfigError(
                "name", "name must not be empty: students see it when they join."
            )
        if len(self.setup) > MAX_SETUP_LENGTH:
            raise ConfigError(
                "setup",
                f"setup must have at most {MAX_SETUP_LENGTH} characters, got "
                f"{len(self.setup)}.",
            )
        _check("launches", launches, quotas.class_launches or MAX_LAUNCHES)
        _check(
            "launches_each",
            per_student,
            launches or 1,
            "at most the number of all together, ",
        )
        _check("days", days, quotas.class_days or MAX_DAYS)
        return {
            "name": name,
            "launches": launches,
            "launches_each": per_student,
            "setup": self.setup,
            "days": days,
            "shares_runs": self.shares_runs,
        }


def default_plan(quotas: Quotas) -> ClassPlan:
    """Returns the default settings of a class on this site."""
    most = quotas.class_launches or MAX_LAUNCHES
    launches = min(quotas.class_launches_usual, most)
    return ClassPlan(
        name="",
        launches=launches,
        launches_each=min(quotas.class_launches_each, launches),
        days=min(DEFAULT_DAYS, quotas.class_days or MAX_DAYS),
    )


def checked_nickname(text: str) -> str:
    """Returns a nickname with single spaces; "" displays the student's number.

    Raises:
        ConfigError: The nickname is too long or not printable.
    """
    nickname = " ".join(text.split())
    if len(nickname) > MAX_NICKNAME_LENGTH or not nickname.isprintable():
        raise ConfigError(
            "nickname",
            f"nickname must have at most {MAX_NICKNAME_LENGTH} printable characters, "
            f"got {text[:60]!r}.",
        )
    return nickname


def _check(name: str, value: int | None, most: int, why: str = "") -> None:
    if value is None or not 1 <= value <= most:
        raise ConfigError(
            name, f"{name} must be at least 1 and {why}at most {most}, got {value}."
        )
