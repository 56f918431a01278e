"""Seeds torch's global generators, without overhead on a machine without devices."""

from __future__ import annotations

import torch


def seed_draws(seed: int) -> None:
    """Seeds torch's global generators, as ``torch.manual_seed`` does.

    Without a device, ``torch.manual_seed`` stores a formatted stack of its caller per
    type of device, for a later initialization of the device.  A call takes 0.4 ms and
    some kilobytes, which is a fifth of the time of a safety check.
    """
    if torch.accelerator.is_available():
        torch.manual_seed(seed)
    else:
        torch.default_generator.manual_seed(seed)
