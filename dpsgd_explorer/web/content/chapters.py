"""The chapters of the Learning Hub: one line each, in reading order."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

INTUITION, FULL = "intuition", "full"
TRACKS = {INTUITION: "Intuition", FULL: "Full"}  # ways to read a chapter
WORDS_A_MINUTE = 180
WIDGET_MINUTES = 2  # to guess, to move it, and to read what it says
WIDGET = "data-widget="  # stands once in the markup of each
# Drawings and formulas are looked at; folds and sources are opened by few; the still
# picture of a widget is there instead of the moving one.
NOT_READ = re.compile(
    r'<div data-still>.*?(?=<div class="widget-live")|'
    r"<(svg|math|pre|details|script)\b.*?</\1>|"
    r'<section class="sources">.*?</section>|<[^>]*>',
    re.DOTALL,
)
# The track "Full" opens the folds, but not the tables below figures.
NOT_READ_IN_FULL = re.compile(
    NOT_READ.pattern.replace("|details|", "|").replace(
        r'<section class="sources">',
        r'<details class="table-toggle">.*?</details>|<section class="sources">',
    ),
    re.DOTALL,
)
HEADING = re.compile(r'<h2 id="([\w-]+)">(.*?)</h2>', re.DOTALL)
# Drawings, code and tags: a mark-up of numbers would break them.
NOT_PROSE = re.compile(
    r"(<svg.*?</svg>|<pre.*?</pre>|<math.*?</math>|<[^>]*>)",
    re.DOTALL,
)
SCRIPT = re.compile(r"(<script.*?</script>)", re.DOTALL)
SMALL_NUMBER = re.compile(r"\d[\d.]*e-\d+")
ON_ONE_LINE = r'<span class="num">\g<0></span>'
NO_BREAK_SPACE = "\N{NO-BREAK SPACE}"


@dataclass(frozen=True)
class Chapter:
    """One chapter; its text is ``templates/learn/<slug>.html``."""

    number: int
    slug: str
    title: str
    question: str
    summary: str

    @property
    def template(self) -> str:
        """Name of its template."""
        return f"learn/{self.slug}.html"


TABLE = (
    (
        "intro",
        "Introduction to differential privacy",
        "What is promised, and what not?",
        "A survey with two coins, what an ε is worth in odds, and what it costs.",
    ),
    (
        "dp-concepts",
        "Core concepts",
        "What do ε and δ measure?",
        "The one inequality, taken apart: who is a neighbour, why δ is an area, and "
        "how noise is fitted to a question.",
    ),
    (
        "sgd-basics",
        "SGD refresher",
        "What does a gradient know about one record?",
        "One step of ordinary training, and a record that is read out of its gradient.",
    ),
    (
        "what-models-leak",
        "What models leak",
        "What can be asked of a model, and who is exposed?",
        "An attack on every record in turn, one that you play yourself, and what no "
        "attack can get past.",
    ),
    (
        "dpsgd-intro",
        "DP-SGD: core modifications",
        "Clip, then noise: in which order, and why?",
        "One private step, sub-step by sub-step, and five ways to get it wrong.",
    ),
    (
        "per-sample-gradients",
        "Per-sample gradients",
        "How does one get every record’s own gradient?",
        "What a backward pass knows of each record, how hooks catch it, and norms of "
        "gradients that are never stored.",
    ),
    (
        "parameters",
        "Hyperparameter deep dive",
        "What does each setting buy and cost?",
        "Bound, noise, batch, learning rate, length: which of them spend ε, and what "
        "the others are for.",
    ),
    (
        "privacy-accounting",
        "Privacy accounting",
        "How does ε grow, and who counts it?",
        "Thousands of steps, three ways to count them, and which answers are promises.",
    ),
    (
        "planning-a-budget",
        "Planning a budget",
        "How is one ε divided, and what does choosing cost?",
        "One total for all uses, the best of many runs, and tools for deciding on the "
        "way.",
    ),
    (
        "auditing",
        "Auditing",
        "Does the program keep the promise?",
        "Three programs with one promise, two of them faulty: attacks, counted "
        "carefully, convict.",
    ),
    (
        "private-linear-regression",
        "Private linear regression",
        "When is there a better way than SGD?",
        "A model simple enough to be solved: noise on its statistics, a ridge that "
        "fits the noise, and full-batch descent as the bridge back.",
    ),
    (
        "fairness",
        "Fairness",
        "Who pays for privacy?",
        "A digit made rare, and what clipping and noise take from it; what helps, and "
        "what it costs.",
    ),
    (
        "in-the-real-world",
        "In the real world",
        "Whose privacy, for how long, against whom?",
        "The unit of privacy, where the noise is added, choosing ε, and what deployed "
        "systems and libraries say and leave out.",
    ),
)
CHAPTERS = {
    slug: Chapter(number, slug, title, question, summary)
    for number, (slug, title, question, summary) in enumerate(TABLE, start=1)
}


def neighbours(chapter: Chapter) -> tuple[Chapter | None, Chapter | None]:
    """Return the chapters before and after; None at the ends."""
    order = list(CHAPTERS.values())
    at = order.index(chapter)
    before = order[at - 1] if at else None
    after = order[at + 1] if at + 1 < len(order) else None
    return before, after


def headings(text: str) -> list[tuple[str, str]]:
    """Return anchor and title of each section in a rendered chapter."""
    return HEADING.findall(text)


def unbroken(text: Markup) -> Markup:
    """Keep "ε = 3", "50 %" and "1e-5" on one line, but leave a script's data alone."""
    parts = SCRIPT.split(text)
    parts[::2] = map(_unbroken, parts[::2])
    return Markup("".join(parts))


def _unbroken(text: str) -> str:
    together = re.sub(
        r"(?<=[εσδη>]) = (?=[\d.∞])", f"{NO_BREAK_SPACE}={NO_BREAK_SPACE}", text
    )
    together = re.sub(r"(?<=\d) %", f"{NO_BREAK_SPACE}%", together)
    parts = NOT_PROSE.split(together)
    parts[::2] = [SMALL_NUMBER.sub(ON_ONE_LINE, prose) for prose in parts[::2]]
    return "".join(parts)


def reading_minutes(text: str) -> int:
    """Return the minutes that a rendered text takes in the track "Full".

    Words are read at ``WORDS_A_MINUTE``, and each widget takes ``WIDGET_MINUTES``.
    Questions count with all their answers and reasons, folds with their prose; code,
    formulas, drawings and sources do not. Of a widget's two pictures one counts.
    """
    return _minutes(_words(text, NOT_READ_IN_FULL), text.count(WIDGET))


def intuition_minutes(text: str, left_out: Sequence[str]) -> int:
    """Return the minutes of the track "Intuition", which opens no folds.

    Args:
        text: The whole text.
        left_out: Passages of it that this track does not show.
    """
    words = _words(text) - sum(map(_words, left_out))
    widgets = text.count(WIDGET) - sum(part.count(WIDGET) for part in left_out)
    return _minutes(words, widgets)


def _minutes(words: int, widgets: int) -> int:
    return math.ceil(words / WORDS_A_MINUTE) + WIDGET_MINUTES * widgets


def _words(text: str, unread: re.Pattern[str] = NOT_READ) -> int:
    return len(unread.sub(" ", text).split())
