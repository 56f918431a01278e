"""Record the reading time of each chapter, by track.

    python -m tools.record.reading_minutes

Writes dpsgd_explorer/web/recorded/chapters/reading_minutes.json.  A test compares it
with the number of words on the pages.
"""

from __future__ import annotations

import sys

from dpsgd_explorer.web import create_app
from dpsgd_explorer.web.hub.chapters.readings import reading_of
from dpsgd_explorer.web.hub.chapters.table import CHAPTERS, MINUTES
from tools.record.files import write


def main() -> int:
    """Render every chapter, count its words, and write the file."""
    with create_app().test_request_context():
        counted = {
            slug: dict(reading_of(chapter).minutes)
            for slug, chapter in CHAPTERS.items()
        }
    write(MINUTES, counted, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
