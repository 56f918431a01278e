"""The device on which a training runs: ``python -m ....training.devices NAME``.

As a program it prints the device for a value of ``DPSGD_DEVICE``, or the reason why
there is none.  A worker runs it before it takes runs, because a process that has looked
for GPUs must not be forked.
"""

from __future__ import annotations

import sys

import torch

from dpsgd_explorer.errors import ConfigError

FOUND, REFUSED = 0, 1


def find(name: str) -> torch.device:
    """Returns the device of a training.

    Args:
        name: "cpu", "auto" (a GPU where torch finds one, else the CPU), "cuda" or
            "cuda:N".

    Raises:
        ConfigError: torch finds no such GPU, or cannot use it.

    Example:
        >>> find("cpu")
        device(type='cpu')
    """
    if name == "cpu":
        return torch.device("cpu")
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if name == "auto":
        name = "cuda" if count else "cpu"
    device = torch.device(name)
    if device.type == "cuda" and (device.index or 0) >= count:
        raise _refused(name, f"PyTorch {torch.__version__} finds {count} GPUs")
    try:
        torch.zeros(1, device=device)
    except RuntimeError as error:
        raise _refused(name, str(error).partition("\n")[0]) from error
    return device


def model_name(device: torch.device) -> str:
    """Returns the name of a GPU, such as "NVIDIA H200", or of another device."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else str(device)


def _refused(name: str, reason: str) -> ConfigError:
    return ConfigError(
        "DPSGD_DEVICE",
        f"DPSGD_DEVICE must name a GPU that PyTorch can use, got {name}: {reason}. "
        "Install a build of PyTorch for this GPU, or set DPSGD_DEVICE=cpu.",
    )


def main(arguments: list[str]) -> int:
    """Prints the device, or the reason why there is none; returns the exit code."""
    try:
        print(find(arguments[0]))
    except ConfigError as error:
        print(error)
        return REFUSED
    return FOUND


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
