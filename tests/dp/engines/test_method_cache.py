"""The times of norm methods in a file that others may write, damage or forbid."""

import json
import stat

import pytest

from dpsgd_explorer.dp.engines.methods.method_cache import MOST_KEYS, MethodCache

TIMES = {"ghost": 1e-6, "instantiate": 2e-6}


def file_of(folder):
    [path] = folder.iterdir()
    return path


def test_another_process_finds_what_was_measured(tmp_path):
    folder = tmp_path / "cache" / "norm_methods"
    MethodCache(folder).add("a", "layer", TIMES)
    assert MethodCache(folder).times("a", "layer") == TIMES
    assert MethodCache(folder).times("another processor", "layer") == {}
    assert MethodCache(folder).times("a", "another layer") == {}
    assert stat.S_IMODE(file_of(folder).stat().st_mode) == 0o600


def test_two_that_write_keep_each_others_times(tmp_path):
    caches = MethodCache(tmp_path), MethodCache(tmp_path)
    for cache in caches:
        assert cache.times("a", "layer") == {}  # both have read the empty folder
    for name, cache in zip(("one", "two"), caches, strict=True):
        cache.add("a", name, TIMES)
    assert MethodCache(tmp_path).times("a", "one") == TIMES
    assert MethodCache(tmp_path).times("a", "two") == TIMES


def damaged(text):
    found = json.loads(text)
    key = "seconds_per_sample"
    return {
        "cut": text[: len(text) // 2],
        "no text": "\udcff",
        "empty": "",
        "a list": "[]",
        "deep": "[" * 100_000,
        "another version": json.dumps(found | {"version": 0}),
        "another processor": json.dumps(found | {"processor": "b"}),
        "no times": json.dumps(found | {key: None}),
        "a time below 0": json.dumps(found | {key: {"layer": {"ghost": -1.0}}}),
        "no number": json.dumps(found | {key: {"layer": {"ghost": "x"}}}),
        "not a number": json.dumps(found | {key: {"layer": {"ghost": float("nan")}}}),
        "a number": json.dumps(found | {key: {"layer": 1.0}}),
    }


@pytest.mark.parametrize("kind", damaged('{"a": 1}'))
def test_a_file_that_is_damaged_or_foreign_is_as_none(tmp_path, kind):
    MethodCache(tmp_path).add("a", "layer", TIMES)
    path = file_of(tmp_path)
    text = damaged(path.read_text(encoding="utf-8"))[kind]
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    cache = MethodCache(tmp_path)
    assert cache.times("a", "layer") == {}
    cache.add("a", "layer", TIMES)
    assert MethodCache(tmp_path).times("a", "layer") == TIMES


def test_a_folder_that_cannot_be_written_leaves_the_memory(tmp_path):
    folder = tmp_path / "file" / "below"
    folder.parent.write_text("no folder")
    for cache in (MethodCache(folder), MethodCache(None)):
        cache.add("a", "layer", TIMES)
        assert cache.times("a", "layer") == TIMES


def test_a_file_does_not_grow_for_ever(tmp_path):
    cache = MethodCache(tmp_path)
    cache.add("a", "layer", TIMES)
    path = file_of(tmp_path)
    found = json.loads(path.read_text(encoding="utf-8"))
    found["seconds_per_sample"] = {str(i): TIMES for i in range(MOST_KEYS)}
    path.write_text(json.dumps(found), encoding="utf-8")
    MethodCache(tmp_path).add("a", "layer", TIMES)
    found = json.loads(path.read_text(encoding="utf-8"))
    assert found["seconds_per_sample"] == {"layer": TIMES}
