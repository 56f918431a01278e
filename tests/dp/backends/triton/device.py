"""The device of these tests: an accelerator, or a processor that is taken for one.

Where there is none, the kernels are run by Triton's interpreter, from the same source,
and the processor takes the backend of an accelerator.
"""

import os
import sys
from contextlib import contextmanager
from pathlib import Path

import torch

from dpsgd_explorer.dp.backends import using
from dpsgd_explorer.dp.backends.asynchronous import AsyncBackend
from dpsgd_explorer.dp.backends.torch import TorchBackend
from dpsgd_explorer.dp.backends.triton import rows
from dpsgd_explorer.dp.backends.triton.backend import TritonBackend

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
#: Where the interpreter is installed: beside the environment, which torch reads.
INTERPRETER = str(Path(sys.prefix) / "kernels")

if DEVICE == "cuda":
    torch.backends.cudnn.allow_tf32 = False  # forward, too, in all digits
if DEVICE == "cpu":
    os.environ["TRITON_INTERPRET"] = "1"
    sys.path.append(INTERPRETER)
    from dpsgd_explorer.dp.backends.triton import row_kernels

    # The interpreter takes a millisecond per block.
    row_kernels.CHUNK_ENTRIES = 2 * row_kernels.BLOCK_ENTRIES


@contextmanager
def taken_for_an_accelerator(*, kernels=True):
    """Let tensors on DEVICE be an accelerator's, for which there may be kernels."""
    assert rows.is_installed(), "Triton is missing; `make test` installs it"
    backend = TritonBackend() if kernels else AsyncBackend()
    if DEVICE == "cpu":
        backend.chunk_bytes = TorchBackend().chunk_bytes
    with using(backend, DEVICE):
        yield backend
