"""Noise drawn where the sum is: ChaCha20 on a device in the place of AES.

The key comes from the operating system, as that of ``aes_stream``, and is never shown
or saved.  No block of the cipher comes twice: within a call blocks are counted, and the
calls under a key are the nonce.
"""

from __future__ import annotations

import os
import secrets
from functools import cache
from importlib import import_module
from typing import Any

import torch
from torch import Tensor

KEY_BYTES = 32
#: Most numbers of a call: 2^30 take 2^27 blocks of the cipher, which counts 2^32.
MOST_NUMBERS = 2**30
#: Most calls under a key.
MOST_CALLS = 2**31 - 1


class DeviceNoise:
    """Adds normal numbers from a secret key, on the device of the values.

    Args:
        kernel: The module of the kernel; this package's if not given.
    """

    def __init__(self, kernel: Any = None) -> None:
        self._kernel = kernel
        self._keys: dict[torch.device, Tensor] = {}
        self.renew()

    def renew(self) -> None:
        """Take new keys, so that no bit is used twice."""
        self._keys, self._calls, self._process = {}, 0, os.getpid()

    def add_normals(self, values: Tensor, scale: float, shift: float) -> None:
        """Add scale * sqrt(-ln U) (cos t, sin t), cosines to the first half.

        Args:
            values: Contiguous float32 [P].
            scale: Factor of the radii, which are rounded after it.
            shift: 1.5 / eps steps of the grid.
        """
        for piece in torch.split(values, MOST_NUMBERS):
            self._add_normals(piece, scale, shift)

    def _add_normals(self, values: Tensor, scale: float, shift: float) -> None:
        kernel = self._kernel or _kernel()
        pairs = (values.numel() + 1) // 2
        tiles = -(-pairs // (kernel.BLOCKS * kernel.PAIRS_A_BLOCK.value))
        if not tiles:
            return
        # A forked child has a copy of the key and would repeat the parent's noise.
        if self._process != os.getpid() or self._calls == MOST_CALLS:
            self.renew()
        key, call = self._key_on(values.device), self._calls
        self._calls += 1  # before the launch: a call that fails is not repeated
        kernel.add_normals[(tiles,)](
            *(values, values.numel(), key, call, scale, shift),
            BLOCKS=kernel.BLOCKS,
            # Each product is rounded where the C source has one.
            enable_fp_fusion=False,
        )

    def _key_on(self, device: torch.device) -> Tensor:
        """Return the key of a device, uint32 [8] there."""
        if device not in self._keys:
            key = torch.frombuffer(
                bytearray(secrets.token_bytes(KEY_BYTES)), dtype=torch.uint32
            )
            self._keys[device] = key.to(device)
        return self._keys[device]


@cache
def _kernel() -> Any:
    """Return the module of the kernel, which needs Triton."""
    return import_module("dpsgd_explorer.dp.backends.triton.noise_kernel")
