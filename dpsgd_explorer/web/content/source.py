"""Record of a reference."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Source:
    """A paper, a report or a program.

    Attributes:
        arxiv: arXiv number, "" if it is not on arXiv.
        where: Journal, conference or publisher, "" if it is on arXiv.
        address: URL, "" if it is on arXiv or has no known URL.
    """

    authors: str
    year: int
    title: str
    arxiv: str = ""
    where: str = ""
    address: str = ""

    @property
    def url(self) -> str:
        """URL, "" if unknown."""
        return f"https://arxiv.org/abs/{self.arxiv}" if self.arxiv else self.address

    @property
    def link_words(self) -> str:
        """Text of the link: arXiv number, or host."""
        return f"arXiv:{self.arxiv}" if self.arxiv else self.address.split("/")[2]
