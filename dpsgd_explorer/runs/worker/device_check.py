"""The check at start that the GPU of ``DPSGD_DEVICE`` can be used."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

from dpsgd_explorer.errors import ConfigError
from dpsgd_explorer.runs.worker import limits
from dpsgd_explorer.settings import Settings

PROGRAM = ("-m", "dpsgd_explorer.training.devices")


def with_device(settings: Settings) -> Settings:
    """Returns the settings with the device found; "auto" becomes a GPU or the CPU.

    Another process looks for the GPU, within the limits of a run: a process that has
    looked for GPUs must not be forked.  For "cpu" there is nothing to look for.

    Raises:
        ConfigError: a GPU is demanded, and PyTorch cannot use it.
    """
    if settings.device == "cpu":
        return settings

    def limited() -> None:
        limits.apply(
            memory_mib=settings.run_memory_mib,
            seconds=settings.run_seconds,
            threads=settings.threads,
        )

    found = subprocess.run(
        [sys.executable, *PROGRAM, settings.device],
        stdout=subprocess.PIPE,
        text=True,
        check=False,
        preexec_fn=limited,
    )
    answer = found.stdout.strip()
    if found.returncode:
        reason = answer or f"the search ended with code {found.returncode}."
        raise ConfigError(
            "DPSGD_DEVICE",
            f"{reason} (Looked for with the memory limit of a run, "
            f"DPSGD_RUN_MEMORY_MIB={settings.run_memory_mib}.)",
        )
    return replace(settings, device=answer)
