"""Recording of the blocks that fit each set of published statistics.

    python -m dpsgd_explorer.web.hub.widgets.census_table.record

Writes ``recorded.json`` into this folder: ``fits``, as ``table.fits`` returns it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from dpsgd_explorer.web.hub.widgets.census_table.table import fits


def main() -> int:
    """Enumerates all blocks and writes the counts."""
    text = json.dumps({"fits": fits()})
    path = Path(__file__).parent / "recorded.json"
    path.write_text(text + "\n", encoding="utf-8")
    print(f"{len(fits())} sets of statistics, at least {min(fits())[0]} block")
    return 0


if __name__ == "__main__":
    sys.exit(main())
