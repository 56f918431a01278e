"""Unpredictable random bits: AES in counter mode.

The key comes from the operating system, exists in one object of one process, and is
never shown or saved; it is copied only where all ranks of a group are to draw the same
bits.  A child process of ``fork`` takes a new key.

128-bit keys; to distinguish 2^36 blocks (1 TiB) from random bits succeeds with an
advantage of at most 2^-57 (Bellare et al., 1997, "A Concrete Security Treatment of
Symmetric Encryption").
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable

import torch
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from torch import Tensor

BLOCK_BYTES = 16
#: Bytes encrypted per call; the key stream is the encryption of zeros.
CHUNK_BYTES = 2**16

_ZEROS = memoryview(bytes(CHUNK_BYTES))


def memory_of(values: Tensor) -> memoryview:
    """Return the bytes of contiguous values on the CPU, to be read and written."""
    return values.view(torch.uint8).numpy().data


class KeyStream:
    """Uniform bits from a secret key.

    ``get_state`` and ``set_state`` have the interface of ``torch.Generator``, but the
    state is empty: to set it takes a new key.

    Args:
        shared: Returns, of a key of this process, the key to take: with several
            processes, one for all.

    Attributes:
        keys: Number of keys taken so far.
    """

    def __init__(self, shared: Callable[[bytes], bytes] = bytes) -> None:
        self.keys = 0
        self._shared = shared
        self._take_key()

    def fill(self, memory: memoryview) -> None:
        """Overwrite memory with random bytes."""
        # A forked child has a copy of the key and would repeat the parent's noise.
        if self._process != os.getpid():
            self._take_key()
        for start in range(0, len(memory), CHUNK_BYTES):
            part = memory[start : start + CHUNK_BYTES]
            self._encryptor.update_into(_ZEROS[: len(part)], part)

    def uniforms(self, count: int) -> Tensor:
        """Return float64 [count] in [0, 1), multiples of 2^-53."""
        bits = torch.empty(count, dtype=torch.int64)
        self.fill(memory_of(bits))
        # The arithmetic shift turns 64 bits into a signed number of 53 bits.
        return bits.bitwise_right_shift_(11).double().mul_(2.0**-53).add_(0.5)

    def get_state(self) -> Tensor:
        """Return uint8 [0]: a key is never saved."""
        return torch.empty(0, dtype=torch.uint8)

    def set_state(self, state: Tensor) -> None:
        """Take a new key, so that no bit is used twice."""
        self._take_key()

    def _take_key(self) -> None:
        key = self._shared(secrets.token_bytes(16))
        cipher = Cipher(algorithms.AES(key), modes.CTR(bytes(BLOCK_BYTES)))
        self._encryptor = cipher.encryptor()
        self._process = os.getpid()
        self.keys += 1
