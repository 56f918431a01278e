"""How a run is computed: settings that change its seconds and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from dpsgd_explorer.settings import Settings


@dataclass(frozen=True, kw_only=True)
class PerformanceSettings:
    """Resources of a run; the numbers that it computes do not depend on them.

    Attributes:
        num_threads: Threads that torch computes with.  Sums are added up in another
            order with another number, so the last bits may differ.
        kernels: Which of dp.kernels: "exact" for those that change no bit, "fast" also
            for float32 products that may round otherwise, "off" for none.
        cache_dir: Folder for computed features, made if need be; None keeps them in
            memory and computes them again in the next process.
        tables_dir: Folder with the visitor's own table; the present one if None.
        on_progress: Called while features are computed: rows done, of how many.
    """

    num_threads: int = 1
    kernels: str = "exact"
    cache_dir: Path | None = None
    tables_dir: Path | None = None
    on_progress: Callable[[int, int], None] | None = None

    @classmethod
    def from_settings(
        cls,
        settings: Settings,
        on_progress: Callable[[int, int], None] | None = None,
    ) -> Self:
        """Return the settings of this installation."""
        return cls(
            num_threads=settings.threads,
            kernels=settings.kernels,
            cache_dir=settings.instance_dir / "cache",
            on_progress=on_progress,
        )
