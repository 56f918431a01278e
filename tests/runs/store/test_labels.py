"""What a visitor writes on a run."""

import pytest

from dpsgd_explorer.errors import ConfigError


def test_a_run_keeps_the_labels_that_are_not_given(store, config):
    run = store.create(config, visitor="ann", name="tea time")
    assert (run.note, run.starred) == ("", False)
    store.label(run.id, "ann", note="two\r\nlines", starred=True)
    labelled = store.label(run.id, "ann")
    assert (labelled.name, labelled.note) == ("tea time", "two\nlines")
    assert labelled.starred is True
    assert store.label(run.id, "ann", note="", starred=False) == run


@pytest.mark.parametrize("note", ["x" * 501, "\x1b[31m", "a\tb", "\u202egpj"])
def test_a_note_is_short_and_printable(store, config, note):
    run = store.create(config, visitor="ann")
    with pytest.raises(ConfigError, match="note must have at most 500 printable"):
        store.label(run.id, "ann", note=note)
    assert store.get(run.id) == run
