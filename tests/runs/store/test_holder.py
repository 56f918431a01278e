"""A process is known by a name that no other has."""

import subprocess
import sys

import pytest

from dpsgd_explorer.runs.store.holder import is_gone, own_name


def changed(place, value):
    parts = own_name().split()
    parts[place] = value
    return " ".join(parts)


@pytest.mark.parametrize(
    ("name", "gone"),
    [
        pytest.param(own_name(), False, id="ourselves"),
        pytest.param(changed(3, "1"), True, id="our number was another's before"),
        pytest.param(changed(0, "earlier"), True, id="before a restart"),
        pytest.param(changed(1, "1"), False, id="in a container we cannot see into"),
        pytest.param("", False, id="no name"),
        pytest.param(None, False, id="of an earlier version"),
    ],
)
def test_who_is_gone(name, gone):
    assert is_gone(name) is gone


def test_a_process_is_gone_before_its_parent_has_taken_note():
    code = "from dpsgd_explorer.runs.store.holder import own_name; print(own_name())"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as it:
        name = it.stdout.read().decode().strip()  # until it has ended: now a zombie
        while it.poll() is None and not is_gone(name):
            pass
        assert name
        assert is_gone(name)
