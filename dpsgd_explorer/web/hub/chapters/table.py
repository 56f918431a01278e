"""The chapters of the Learning Hub in reading order."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from dpsgd_explorer.web.recorded.files import recording

INTUITION, FULL = "intuition", "full"
TRACKS = {INTUITION: "Intuition", FULL: "Full"}  # versions of a chapter
#: {chapter: {track: minutes}}, written by ``tools.record.reading_minutes``. Counting
#: them on demand would draw the pictures of every chapter for the first visitor.
MINUTES = "chapters/reading_minutes"


@dataclass(frozen=True)
class Chapter:
    """One chapter.

    Attributes:
        number: Position in the reading order, from 1.
        slug: Name in addresses. The folder has underscores in place of the dashes.
        title: Name on pages.
        question: Question that the chapter answers.
        summary: Contents in one or two sentences.
        insight: Its main statement in one or two sentences.
        part: Name of the part that begins with this chapter; "" within a part.
    """

    number: int
    slug: str
    title: str
    question: str
    summary: str
    insight: str
    part: str

    @property
    def template(self) -> str:
        """Name of the template with the text."""
        return f"learn/{self.slug}.html"

    @property
    def folder(self) -> Path:
        """Folder of the figures and of the code that the text shows."""
        return Path(__file__).parent / self.slug.replace("-", "_")

    def minutes(self, track: str = FULL) -> int:
        """Returns the reading time in minutes, including the widgets of the track."""
        counted: int = recording(MINUTES)[self.slug][track]
        return counted


TABLE = (
    (
        "intro",
        "Introduction to differential privacy",
        "What is promised, and what is not?",
        "A survey with two coins, the worth of an ε in odds, and the cost of privacy.",
        "Differential privacy limits what anybody learns because you took part. It "
        "does not limit what they learn about you from everybody else.",
    ),
    (
        "dp-concepts",
        "Core concepts",
        "What do ε and δ measure?",
        "One inequality, part by part: neighbouring data sets, why δ is an area, and "
        "how to fit noise to a question.",
        "ε limits how much likelier one record makes any outcome, and δ is the area "
        "above this limit. Noise buys both, in proportion to how far one record can "
        "move the answer.",
    ),
    (
        "sgd-basics",
        "SGD refresher",
        "What does a gradient know about one record?",
        "One step of ordinary training, and a record that an attacker reads out of its "
        "gradient.",
        "A gradient is computed from records, and records can be computed from it: "
        "whoever sees a record’s gradient sees the record.",
    ),
    (
        "what-models-leak",
        "What models leak",
        "What can an attacker learn from a model, and whose records are exposed?",
        "An attack on every record in turn, an attack that you play yourself, and the "
        "limit of all attacks.",
        "Models leak most about unusual records, and an average over all records "
        "hides it. Privacy has to hold for the record that is exposed most.",
    ),
    (
        "dpsgd-intro",
        "DP-SGD: core modifications",
        "Clip, then add noise: why in this order?",
        "One private step, sub-step by sub-step, and five ways to get it wrong.",
        "Clipping limits what one record can add; noise hides an addition of that "
        "size. Neither protects anybody without the other.",
    ),
    (
        "per-sample-gradients",
        "Per-sample gradients",
        "How do you compute the gradient of each record?",
        "One backward pass, hooks that catch each record’s part of it, and norms of "
        "gradients that are never stored.",
        "A private step needs the norm of each record’s gradient and one weighted "
        "sum. Both follow from one backward pass, and no record’s gradient has to be "
        "stored.",
    ),
    (
        "parameters",
        "Hyperparameter deep dive",
        "What does each setting buy and cost?",
        "Bound, noise, batch, learning rate, length: which settings spend ε, and what "
        "the others do.",
        "σ, the sampling rate and the number of steps decide ε. C, the learning rate "
        "and the model decide which accuracy this ε buys.",
    ),
    (
        "privacy-accounting",
        "Privacy accounting",
        "How does ε grow, and who counts it?",
        "Thousands of steps, three ways to count them, and the answers that are "
        "promises.",
        "A training has the same ε whoever counts it. A better accountant does not "
        "make it more private; it proves more of its privacy.",
    ),
    (
        "planning-a-budget",
        "Planning a budget",
        "How is one ε divided, and what does choosing cost?",
        "One total for all uses, the best of many runs, and tools for decisions on the "
        "way.",
        "Everything that looked at the data has spent some of the budget, discarded "
        "runs included. Fix the total first, then divide it.",
    ),
    (
        "auditing",
        "Auditing",
        "Does the program keep the promise?",
        "Three programs make one promise, and two of them are faulty. Attacks, counted "
        "carefully, convict them.",
        "An audit can refute a promise, but never prove it. It bounds ε from below; "
        "the accountant bounds it from above.",
    ),
    (
        "private-linear-regression",
        "Private linear regression",
        "When is there a better way than SGD?",
        "A model simple enough to be solved: noise on its statistics, a ridge that "
        "fits the noise, and full-batch descent as the bridge back to SGD.",
        "Where a few sums determine a model, add noise to these sums once, instead of "
        "to every step.",
    ),
    (
        "fairness",
        "Fairness",
        "Who pays for privacy?",
        "One digit becomes rare: how clipping and noise harm it, and which remedies "
        "help at which cost.",
        "A private model must not depend much on any few records, so the members of "
        "small groups pay most for privacy.",
    ),
    (
        "in-the-real-world",
        "In the real world",
        "Whose privacy, for how long, against whom?",
        "The unit of privacy, the place of the noise, the choice of ε, and the gaps in "
        "the numbers of deployed systems and libraries.",
        "An ε means little by itself. Ask whose record it protects, for how long, and "
        "against whom.",
    ),
)
#: Parts of the hub, by the chapter that each begins with.
PARTS = {
    "intro": "Promise",
    "sgd-basics": "Leak",
    "dpsgd-intro": "Train",
    "privacy-accounting": "Trust",
}
CHAPTERS = {
    slug: Chapter(number, slug, title, question, summary, insight, PARTS.get(slug, ""))
    for number, (slug, title, question, summary, insight) in enumerate(TABLE, start=1)
}


def part_of(chapter: Chapter) -> str:
    """Returns the name of the part that a chapter belongs to."""
    begun = [one.part for one in CHAPTERS.values() if one.number <= chapter.number]
    return next(part for part in reversed(begun) if part)


def neighbours(chapter: Chapter) -> tuple[Chapter | None, Chapter | None]:
    """Returns the chapters on either side; None at the ends."""
    order = list(CHAPTERS.values())
    position = order.index(chapter)
    before = order[position - 1] if position else None
    after = order[position + 1] if position + 1 < len(order) else None
    return before, after


def total_minutes(track: str = FULL) -> int:
    """Returns the reading time of all chapters together, in minutes."""
    return sum(chapter.minutes(track) for chapter in CHAPTERS.values())
