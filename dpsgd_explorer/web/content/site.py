"""Name of the site, and its description in one sentence."""

from __future__ import annotations

NAME = "DP-SGD Explorer"
DESCRIPTION = "See, run and check differentially private training."
#: Path below static/; ``tools.draw_site_preview`` writes the file.
PREVIEW = "site_preview.png"
