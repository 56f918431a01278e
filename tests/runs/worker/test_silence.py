"""A silent run reports why, from the kernel's counts."""

import pytest

from dpsgd_explorer.experiments.events import Event
from dpsgd_explorer.runs.worker import silence
from dpsgd_explorer.runs.worker.silence import EventReporter, Silence
from tests.runs.system_processes import wait_until


class Written(list):
    add = list.append


@pytest.fixture
def counts(tmp_path, monkeypatch):
    """Set what the kernel has counted; silences are explained at once."""
    file = tmp_path / "schedstat"
    monkeypatch.setattr(silence, "SCHEDULED", file)
    monkeypatch.setattr(silence, "SILENCE_SECONDS", 0.02)
    monkeypatch.setattr(silence, "POLL_SECONDS", 0.01)
    return lambda running, waiting: file.write_text(f"{running} {waiting} 7\n")


def test_a_silence_is_explained_once_and_the_next_one_again(counts):
    counts(100, 100)
    written = Written()
    reporter = EventReporter(written)
    with Silence(reporter):
        wait_until(lambda: len(written) == 1)
        reporter.report(Event("step", {"step": 1}))
        wait_until(lambda: len(written) == 3)
    assert [event.data.get("what") for event in written] == [
        "preparation",
        None,
        "step",
    ]


@pytest.mark.parametrize(
    ("running", "waiting", "has_stepped", "what"),
    [
        (300, 700, False, "processor"),
        (300, 700, True, "processor"),
        (900, 100, False, "preparation"),
        (900, 100, True, "step"),
        (0, 0, True, "step"),
    ],
)
def test_the_reason_follows_from_the_share_of_a_core(
    counts, running, waiting, has_stepped, what
):
    counts(1_000, 1_000)
    before = silence.scheduled()
    counts(1_000 + running, 1_000 + waiting)
    share = silence.share_of_core(before, silence.scheduled())
    data = silence.reason(share, has_stepped=has_stepped)
    assert data["what"] == what
    assert ("share" in data) == (what == "processor")
    if what == "processor":
        assert data["share"] == 0.3


def test_a_system_without_counts_says_nothing_of_the_processor(tmp_path, monkeypatch):
    monkeypatch.setattr(silence, "SCHEDULED", tmp_path / "none")
    assert silence.share_of_core(silence.scheduled(), silence.scheduled()) == 1
