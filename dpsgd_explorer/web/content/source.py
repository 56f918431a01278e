"""One source that a chapter names."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Source:
    """A paper, a report or a program.

    Attributes:
        arxiv: Its number, "" where it is not on arXiv.
        where: Where it was published, "" if on arXiv.
        address: Its address, "" if it is on arXiv or has none that is known.
    """

    authors: str
    year: int
    title: str
    arxiv: str = ""
    where: str = ""
    address: str = ""

    @property
    def url(self) -> str:
        """Its address, "" if none is known."""
        return f"https://arxiv.org/abs/{self.arxiv}" if self.arxiv else self.address

    @property
    def link_words(self) -> str:
        """The words of its link: number on arXiv, or host."""
        return f"arXiv:{self.arxiv}" if self.arxiv else self.address.split("/")[2]
