"""The chapters of the Learning Hub in reading order, and their reading times."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

INTUITION, FULL = "intuition", "full"
TRACKS = {INTUITION: "Intuition", FULL: "Full"}  # ways to read a chapter
WORDS_A_MINUTE = 180
WIDGET_MINUTES = 2  # to guess, to move the widget, and to read its sentences
WIDGET = "data-widget="  # occurs once in the markup of each widget
# Drawings and formulas have no words to read.  Few readers open folds and sources.
# The still picture of a widget replaces the moving one, so only one of them counts.
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
        """Name of the chapter's template."""
        return f"learn/{self.slug}.html"


TABLE = (
    (
        "intro",
        "Introduction to differential privacy",
        "What is promised, and what is not?",
        "A survey with two coins, the worth of an ε in odds, and the cost of privacy.",
    ),
    (
        "dp-concepts",
        "Core concepts",
        "What do ε and δ measure?",
        "One inequality, part by part: neighbouring data sets, why δ is an area, and "
        "how to fit noise to a question.",
    ),
    (
        "sgd-basics",
        "SGD refresher",
        "What does a gradient know about one record?",
        "One step of ordinary training, and a record that an attacker reads out of its "
        "gradient.",
    ),
    (
        "what-models-leak",
        "What models leak",
        "What can an attacker learn from a model, and whose records are exposed?",
        "An attack on every record in turn, an attack that you play yourself, and the "
        "limit of all attacks.",
    ),
    (
        "dpsgd-intro",
        "DP-SGD: core modifications",
        "Clip, then add noise: why in this order?",
        "One private step, sub-step by sub-step, and five ways to get it wrong.",
    ),
    (
        "per-sample-gradients",
        "Per-sample gradients",
        "How do you compute the gradient of each record?",
        "One backward pass, hooks that catch each record’s part of it, and norms of "
        "gradients that are never stored.",
    ),
    (
        "parameters",
        "Hyperparameter deep dive",
        "What does each setting buy and cost?",
        "Bound, noise, batch, learning rate, length: which settings spend ε, and what "
        "the others do.",
    ),
    (
        "privacy-accounting",
        "Privacy accounting",
        "How does ε grow, and who counts it?",
        "Thousands of steps, three ways to count them, and the answers that are "
        "promises.",
    ),
    (
        "planning-a-budget",
        "Planning a budget",
        "How is one ε divided, and what does choosing cost?",
        "One total for all uses, the best of many runs, and tools for decisions on the "
        "way.",
    ),
    (
        "auditing",
        "Auditing",
        "Does the program keep the promise?",
        "Three programs make one promise, and two of them are faulty. Attacks, counted "
        "carefully, convict them.",
    ),
    (
        "private-linear-regression",
        "Private linear regression",
        "When is there a better way than SGD?",
        "A model simple enough to be solved: noise on its statistics, a ridge that "
        "fits the noise, and full-batch descent as the bridge back to SGD.",
    ),
    (
        "fairness",
        "Fairness",
        "Who pays for privacy?",
        "One digit becomes rare: how clipping and noise harm it, and which remedies "
        "help at which cost.",
    ),
    (
        "in-the-real-world",
        "In the real world",
        "Whose privacy, for how long, against whom?",
        "The unit of privacy, the place of the noise, the choice of ε, and the gaps in "
        "the numbers of deployed systems and libraries.",
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

    A minute has ``WORDS_A_MINUTE`` words, and each widget takes ``WIDGET_MINUTES``.
    Questions count with all their answers and reasons, and folds with their prose.
    Code, formulas, drawings and sources do not count. Of a widget's two pictures one
    counts.
    """
    return _minutes(_words(text, NOT_READ_IN_FULL), text.count(WIDGET))


def intuition_minutes(text: str, left_out: Sequence[str]) -> int:
    """Return the minutes of the track "Intuition", which does not open folds.

    Args:
        text: The whole text.
        left_out: Passages of the text that this track does not show.
    """
    words = _words(text) - sum(map(_words, left_out))
    widgets = text.count(WIDGET) - sum(part.count(WIDGET) for part in left_out)
    return _minutes(words, widgets)


def _minutes(words: int, widgets: int) -> int:
    return math.ceil(words / WORDS_A_MINUTE) + WIDGET_MINUTES * widgets


def _words(text: str, unread: re.Pattern[str] = NOT_READ) -> int:
    return len(unread.sub(" ", text).split())
