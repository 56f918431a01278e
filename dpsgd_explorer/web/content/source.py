"""One source that a chapter names."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Source:
    """A paper; ``arxiv`` is "" where it is not on arXiv."""

    authors: str
    year: int
    title: str
    arxiv: str = ""
    where: str = ""

    @property
    def url(self) -> str:
        """Address of the paper on arXiv."""
        return f"https://arxiv.org/abs/{self.arxiv}"
