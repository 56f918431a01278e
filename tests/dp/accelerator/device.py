"""The device of these tests: an accelerator, or a processor that is taken for one.

Where there is none, the kernels are run by Triton's interpreter, from the same source,
and Python reads values of the processor as late as those of an accelerator.
"""

from contextlib import contextmanager

import torch

from dpsgd_explorer.dp.accelerator import asynchronous, rows

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@contextmanager
def taken_for_an_accelerator(*, kernels=True):
    """Let tensors on DEVICE be an accelerator's, for which there may be kernels."""
    before = asynchronous.BEHIND, rows.DEVICES
    asynchronous.BEHIND = {*asynchronous.BEHIND, DEVICE}
    rows.DEVICES = {DEVICE} if kernels else set()
    try:
        yield
    finally:
        asynchronous.BEHIND, rows.DEVICES = before
