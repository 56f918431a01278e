"""What the site is called, and what it says of itself in one sentence."""

from __future__ import annotations

NAME = "DP-SGD Explorer"
DESCRIPTION = "See, run and check differentially private training."
#: Below static/; ``tools.draw_site_preview`` writes it.
PREVIEW = "site_preview.png"
