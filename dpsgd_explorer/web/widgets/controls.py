"""The controls of each widget that a teacher's link may hide, lock or set.

Templates mark them by ``limits.attributes(name)``, scripts by ``control`` of a grip.
"""

from __future__ import annotations

from dpsgd_explorer.web.forms.starts import Rules

CONTROLS: dict[str, dict[str, str]] = {}
#: What controls that hold a value can start at.
STARTS: dict[str, dict[str, Rules]] = {}
