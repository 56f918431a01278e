"""Noise that is generated on the device of the sum, with ChaCha20 instead of AES.

Like the key of ``aes_stream``, the key comes from the operating system and is never
shown or saved.  No block of the cipher is used twice: the counter is the number of the
block within a call, and the nonce is the number of the call under the key.
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
#: Normal numbers per call.  2^30 take 2^27 blocks; the cipher's counter has 2^32.
MAX_CALL_NUMBERS = 2**30
#: Calls under a key: their number, the nonce, is an argument of type int32.
MAX_KEY_CALLS = 2**31 - 1


class DeviceNoise:
    """Adds normal numbers from a secret key, on the device of the values.

    Args:
        kernel: Module with the kernel; None imports ``noise_kernel``.
    """

    def __init__(self, kernel: Any = None) -> None:
        self._kernel = kernel
        self._keys: dict[torch.device, Tensor] = {}
        self.renew()

    def renew(self) -> None:
        """Discards all keys, so that no bit is used twice; later calls create keys."""
        self._keys, self._calls, self._process = {}, 0, os.getpid()

    def add_normals(self, values: Tensor, scale: float, shift: float) -> None:
        """Adds scale * sqrt(-ln U) (cos t, sin t) and rounds to a grid, in place.

        Cosines are added to the first half of the values, and sines to the second.
        More than MAX_CALL_NUMBERS values are divided into chunks with two halves each.

        Args:
            values: Contiguous float32 [P].
            scale: Factor of the radii.  Scaled radii are rounded before they are
                multiplied by a cosine or sine.
            shift: 1.5 / eps steps of the grid.
        """
        for chunk in torch.split(values, MAX_CALL_NUMBERS):
            self._add_normals(chunk, scale, shift)

    def _add_normals(self, values: Tensor, scale: float, shift: float) -> None:
        kernel = self._kernel or _kernel()
        pairs = (values.numel() + 1) // 2
        tiles = -(-pairs // (kernel.BLOCKS * kernel.PAIRS_PER_BLOCK.value))
        if not tiles:
            return
        # A forked child has a copy of the key and would repeat the parent's noise.
        if self._process != os.getpid() or self._calls == MAX_KEY_CALLS:
            self.renew()
        key, call = self._key_on(values.device), self._calls
        self._calls += 1  # Before the launch: a failed call uses up its nonce, too.
        kernel.add_normals[(tiles,)](
            *(values, values.numel(), key, call, scale, shift),
            BLOCKS=kernel.BLOCKS,
            # The C source rounds these products, so the compiler must not fuse them.
            enable_fp_fusion=False,
        )

    def _key_on(self, device: torch.device) -> Tensor:
        """Returns the key of a device, uint32 [8] on that device."""
        if device not in self._keys:
            key = torch.frombuffer(
                bytearray(secrets.token_bytes(KEY_BYTES)), dtype=torch.uint32
            )
            self._keys[device] = key.to(device)
        return self._keys[device]


@cache
def _kernel() -> Any:
    """Imports the module of the kernel, which requires Triton."""
    return import_module("dpsgd_explorer.dp.backends.triton.noise_kernel")
