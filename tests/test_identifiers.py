"""Names that nobody can guess."""

import pytest

from dpsgd_explorer import identifiers
from dpsgd_explorer.identifiers import new_id


def test_a_name_does_not_begin_with_a_hyphen(monkeypatch):
    drawn = iter(["-bc", "--d", "a-e", "f"])
    monkeypatch.setattr(identifiers.secrets, "token_urlsafe", lambda size: next(drawn))
    assert [new_id(), new_id()] == ["a-e", "f"]


@pytest.mark.parametrize(("size", "characters"), [(6, 8), (16, 22)])
def test_it_has_all_its_bytes(size, characters):
    names = {new_id(size) for _ in range(200)}
    assert {len(name) for name in names} == {characters}
    assert len(names) == 200
