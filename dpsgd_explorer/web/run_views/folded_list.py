"""The list of runs with each group folded into one entry."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dpsgd_explorer.web.questions.rounding import percent
from dpsgd_explorer.web.run_views.listing import RunRow


@dataclass(frozen=True)
class Entry:
    """A run, or the listed runs of a group.

    Attributes:
        rows: Rows in the order of the list.
        group: Id of the group, "" for a single run.
        words: Title of the group, "" for a single run.
    """

    rows: list[RunRow]
    group: str = ""
    words: str = ""

    @property
    def subject(self) -> str:
        """Data set of the runs."""
        return self.rows[0].dataset_label

    @property
    def spent(self) -> str:
        """The ε of each run if all are equal, else a dash: the sum has no meaning."""
        privacy = [row.run.privacy for row in self.rows]
        texts = {
            "" if privacy_terms is None else privacy_terms.epsilon_text
            for privacy_terms in privacy
        }
        [text, *others] = texts
        return f"{text} each" if text and not others else "–"

    @property
    def reached(self) -> str:
        """The lowest and the highest accuracy, a dash without any."""
        accuracies = [row.run.summary.get("test_accuracy") for row in self.rows]
        shares = [share for share in accuracies if share is not None]
        if not shares:
            return "–"
        ends = list(dict.fromkeys(percent(end) for end in (min(shares), max(shares))))
        return f"{' to '.join(ends)} %"

    @property
    def seconds(self) -> str:
        """Total training time of the runs, in seconds."""
        durations = [row.run.summary.get("seconds") for row in self.rows]
        times = [time for time in durations if time is not None]
        return f"{sum(times):.1f}" if times else "–"

    @property
    def ended(self) -> int:
        """Number of ended runs."""
        return sum(not row.is_active for row in self.rows)

    @property
    def chosen(self) -> str:
        """How runs were altered by choice, "" if none was."""
        return " or ".join(dict.fromkeys(row.chosen for row in self.rows if row.chosen))


def folded(rows: Sequence[RunRow], words_of: Callable[[str], str]) -> list[Entry]:
    """Returns the entries of a list; a group takes the position of its first run.

    Args:
        rows: Rows in the order of the list.
        words_of: Returns the title of a group; "" if the visitor named its runs.
    """
    by_group: dict[str, list[RunRow]] = {}
    for row in rows:
        by_group.setdefault(row.run.group, []).append(row)
    several = {name for name, members in by_group.items() if name and len(members) > 1}
    words = {name: words_of(name) for name in several}
    entries: dict[str, Entry] = {}
    for row in rows:
        group = row.run.group
        if words.get(group):
            entries.setdefault(group, Entry(by_group[group], group, words[group]))
        else:
            entries[row.run.id] = Entry([row])
    return list(entries.values())
