"""The list of runs with the runs of a group folded into one entry."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dpsgd_explorer.web.questions.rounding import percent
from dpsgd_explorer.web.run_views.listing import RunRow


@dataclass(frozen=True)
class Entry:
    """A run, or the runs of a group that are asked for.

    Attributes:
        rows: In the order of the list.
        group: Id of the group, "" for a single run.
        words: What the group is called, "" for a single run.
    """

    rows: list[RunRow]
    group: str = ""
    words: str = ""

    @property
    def subject(self) -> str:
        """What the runs of a group learn from."""
        return self.rows[0].dataset_label

    @property
    def spent(self) -> str:
        """The ε of each run if it is the same, else a dash: they do not add up so."""
        privacy = [row.run.privacy for row in self.rows]
        texts = {"" if known is None else known.epsilon_text for known in privacy}
        [text, *others] = texts
        return f"{text} each" if text and not others else "–"

    @property
    def reached(self) -> str:
        """The least and the largest accuracy, a dash before the first."""
        known = [row.run.summary.get("test_accuracy") for row in self.rows]
        shares = [share for share in known if share is not None]
        if not shares:
            return "–"
        ends = list(dict.fromkeys(percent(end) for end in (min(shares), max(shares))))
        return f"{' to '.join(ends)} %"

    @property
    def seconds(self) -> str:
        """How long all of them trained together."""
        known = [row.run.summary.get("seconds") for row in self.rows]
        times = [time for time in known if time is not None]
        return f"{sum(times):.1f}" if times else "–"

    @property
    def ended(self) -> int:
        """How many have ended."""
        return sum(not row.is_active for row in self.rows)

    @property
    def chosen(self) -> str:
        """What became of one or more by choice, "" if nothing."""
        return " or ".join(dict.fromkeys(row.chosen for row in self.rows if row.chosen))


def folded(rows: Sequence[RunRow], words_of: Callable[[str], str]) -> list[Entry]:
    """Return the entries of a list, a group at the place of its first run.

    Args:
        rows: In the order of the list.
        words_of: What a group is called; "" for a name of the visitor's own.
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
