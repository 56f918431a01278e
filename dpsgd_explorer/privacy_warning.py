"""Warnings that name the user's line, even if a torch hook raises them."""

from __future__ import annotations

import os
import sys
import warnings
from importlib.util import find_spec
from pathlib import Path

from dpsgd_explorer.errors import PrivacyWarning

_TORCH = find_spec("torch")
#: Folders of code that the user did not write: this package and torch.
LIBRARIES = tuple(
    str(Path(file).parent) + os.sep
    for file in (__file__, _TORCH.origin if _TORCH else None)
    if file is not None
)


def warn(message: str) -> None:
    """Warns with a PrivacyWarning at the innermost line of the user's code.

    Frames of torch are skipped because hooks run inside ``backward`` and ``step``.
    """
    level, frame = 1, sys._getframe()
    while frame.f_code.co_filename.startswith(LIBRARIES):
        if frame.f_back is None:  # a thread that torch started, as on an accelerator
            level = 1
            break
        level, frame = level + 1, frame.f_back
    warnings.warn(message, PrivacyWarning, stacklevel=level)
