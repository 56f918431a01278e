"""Unpredictable random bits from AES-128 in counter mode.

The key comes from the operating system.  It exists in one object of one process, and is
never shown or saved.  It is sent to other processes only if all ranks of a group must
draw equal bits.  A forked child process takes a new key.

If AES is a pseudorandom permutation, 2^36 blocks (1 TiB) can be distinguished from
random bits with an advantage of at most 2^-57 (Bellare et al., 1997, "A Concrete
Security Treatment of Symmetric Encryption").
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable

import torch
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from torch import Tensor

#: Bytes of an AES block, and of a 128-bit key.
BLOCK_BYTES = 16
#: Maximum number of bytes encrypted per call.  The stream is the encryption of zeros,
#: and this is the size of the buffer of zeros.
CHUNK_BYTES = 2**16

_ZEROS = memoryview(bytes(CHUNK_BYTES))


def memory_of(values: Tensor) -> memoryview:
    """Returns the bytes of a contiguous CPU tensor, as a writable view."""
    return values.view(torch.uint8).numpy().data


class KeyStream:
    """Uniform random bits from a secret key.

    ``get_state`` and ``set_state`` have the interface of ``torch.Generator``, but the
    state is empty, and ``set_state`` takes a new key.

    Args:
        share: Function that exchanges this process's key for the key to use, so that
            several processes can use one key; by default each uses its own.

    Attributes:
        keys: Number of keys taken so far.
    """

    def __init__(self, share: Callable[[bytes], bytes] = bytes) -> None:
        self.keys = 0
        self._share = share
        self._take_key()

    def fill(self, memory: memoryview) -> None:
        """Overwrites memory with random bytes."""
        # A forked child has a copy of the key, and would repeat the parent's bits.
        if self._process != os.getpid():
            self._take_key()
        for start in range(0, len(memory), CHUNK_BYTES):
            chunk = memory[start : start + CHUNK_BYTES]
            self._encryptor.update_into(_ZEROS[: len(chunk)], chunk)

    def uniforms(self, count: int) -> Tensor:
        """Returns multiples of 2^-53 in [0, 1), float64 [count]."""
        bits = torch.empty(count, dtype=torch.int64)
        self.fill(memory_of(bits))
        # The arithmetic shift turns 64 bits into a signed number of 53 bits.
        return bits.bitwise_right_shift_(11).double().mul_(2.0**-53).add_(0.5)

    def get_state(self) -> Tensor:
        """Returns an empty state, uint8 [0], because a key is never saved."""
        return torch.empty(0, dtype=torch.uint8)

    def set_state(self, state: Tensor) -> None:
        """Takes a new key, so that no bit is used twice."""
        self._take_key()

    def _take_key(self) -> None:
        key = self._share(secrets.token_bytes(BLOCK_BYTES))
        cipher = Cipher(algorithms.AES(key), modes.CTR(bytes(BLOCK_BYTES)))
        self._encryptor = cipher.encryptor()
        self._process = os.getpid()
        self.keys += 1
