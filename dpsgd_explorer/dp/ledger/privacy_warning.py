"""Warnings that name the caller's line, also from hooks of torch."""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path

import torch

import dpsgd_explorer
from dpsgd_explorer.errors import PrivacyWarning

#: Folders whose lines a user did not write.
LIBRARIES = tuple(
    str(Path(str(module.__file__)).parent) + os.sep
    for module in (dpsgd_explorer, torch)
)


def warn(message: str) -> None:
    """Warn with a PrivacyWarning at the innermost line outside of this package.

    Frames of torch are passed over too: hooks run below ``backward`` and ``step``.
    """
    level, frame = 1, sys._getframe()
    while frame.f_code.co_filename.startswith(LIBRARIES):
        if frame.f_back is None:  # a thread of torch's own, as on an accelerator
            level = 1
            break
        level, frame = level + 1, frame.f_back
    warnings.warn(message, PrivacyWarning, stacklevel=level)
