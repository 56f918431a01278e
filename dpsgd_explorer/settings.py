"""The one place that reads environment variables.

| variable | default | meaning |
|---|---|---|
| ``DPSGD_INSTANCE_DIR`` | ``instance`` | database, queue, caches, cookie key |
| ``DPSGD_DATABASE_URL`` | SQLite in the instance folder | the runs table |
| ``DPSGD_QUEUE_URL`` | SQLite in the instance folder | the doorbell |
| ``DPSGD_PROFILE`` | ``local`` | or ``public``: quotas, see ``Quotas`` |
| ``DPSGD_WORKERS`` | 1 | runs that train at the same time |
| ``DPSGD_THREADS`` | 1 | threads of one training process |
| ``DPSGD_KERNELS`` | ``exact`` | faster pieces; ``fast``: other last bits; ``off`` |
| ``DPSGD_WEB_THREADS`` | 96 | threads of the web server |
| ``DPSGD_RUN_SECONDS`` | 1800 | wall-clock limit of one run |
| ``DPSGD_RUN_MEMORY_MIB`` | 4096 | memory limit of one run |
| ``DPSGD_RUN_COST`` | 2e13 | multiply-adds that one run may ask for |
| ``HOST``, ``PORT`` | 127.0.0.1, 8000 | where the web server listens |
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from dpsgd_explorer.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class Quotas:
    """What one visitor may do; None is no limit."""

    running: int | None = None
    queued: int | None = None
    launches_a_day: int | None = None
    queued_in_all: int = 1000


QUOTAS = {
    "local": Quotas(),
    "public": Quotas(running=1, queued=3, launches_a_day=20, queued_in_all=200),
}

#: Which of dp.kernels a run computes with.
KERNELS = ("exact", "fast", "off")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How this copy of the product runs; see the table above."""

    instance_dir: Path
    database_url: str
    queue_url: str
    profile: str = "local"
    workers: int = 1
    threads: int = 1
    kernels: str = "exact"
    web_threads: int = 96
    run_seconds: int = 1800
    run_memory_mib: int = 4096
    run_cost: float = 2e13
    host: str = "127.0.0.1"
    port: int = 8000

    @property
    def quotas(self) -> Quotas:
        """The limits of the profile."""
        return QUOTAS[self.profile]

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> Self:
        """Read the variables; ConfigError names the one that is wrong."""
        values = os.environ if environment is None else environment
        folder = Path(values.get("DPSGD_INSTANCE_DIR", "instance")).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        return cls(
            instance_dir=folder,
            database_url=values.get(
                "DPSGD_DATABASE_URL", f"sqlite:///{folder / 'runs.sqlite3'}"
            ),
            queue_url=values.get(
                "DPSGD_QUEUE_URL", f"sqlite:///{folder / 'queue.sqlite3'}"
            ),
            profile=_one_of(values, "DPSGD_PROFILE", QUOTAS, cls.profile),
            workers=_number(values, "DPSGD_WORKERS", cls.workers),
            threads=_number(values, "DPSGD_THREADS", cls.threads),
            kernels=_one_of(values, "DPSGD_KERNELS", KERNELS, cls.kernels),
            web_threads=_number(values, "DPSGD_WEB_THREADS", cls.web_threads),
            run_seconds=_number(values, "DPSGD_RUN_SECONDS", cls.run_seconds),
            run_memory_mib=_number(values, "DPSGD_RUN_MEMORY_MIB", cls.run_memory_mib),
            run_cost=float(_number(values, "DPSGD_RUN_COST", int(cls.run_cost))),
            host=values.get("HOST", cls.host),
            port=_number(values, "PORT", cls.port),
        )

    def to_environment(self) -> dict[str, str]:
        """Return the variables that give these settings to a process of ours."""
        return {
            "DPSGD_INSTANCE_DIR": str(self.instance_dir),
            "DPSGD_DATABASE_URL": self.database_url,
            "DPSGD_QUEUE_URL": self.queue_url,
            "DPSGD_PROFILE": self.profile,
            "DPSGD_WORKERS": str(self.workers),
            "DPSGD_THREADS": str(self.threads),
            "DPSGD_KERNELS": self.kernels,
            "DPSGD_WEB_THREADS": str(self.web_threads),
            "DPSGD_RUN_SECONDS": str(self.run_seconds),
            "DPSGD_RUN_MEMORY_MIB": str(self.run_memory_mib),
            "DPSGD_RUN_COST": str(self.run_cost),
            "HOST": self.host,
            "PORT": str(self.port),
        }


def _one_of(
    values: Mapping[str, str], name: str, choices: Collection[str], default: str
) -> str:
    value = values.get(name, default)
    if value not in choices:
        raise ConfigError(
            name, f"{name} must be one of {', '.join(choices)}, got {value!r}."
        )
    return value


def _number(values: Mapping[str, str], name: str, default: int) -> int:
    text = values.get(name, str(default))
    try:
        number = int(float(text))
    except ValueError:
        number = 0
    if number < 1:
        raise ConfigError(name, f"{name} must be a whole number above 0, got {text!r}.")
    return number
