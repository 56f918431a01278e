import contextlib
import os
import signal
import subprocess
import sys
import textwrap
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from dpsgd_explorer.training.datasets import features as features_module
from dpsgd_explorer.training.datasets.features import (
    FeatureTable,
    content_key,
    row_sums,
)

COUNT, WIDTH = 40, 6
INPUTS = torch.randn(COUNT, 3, generator=torch.Generator().manual_seed(1))
WEIGHTS = torch.randn(3, WIDTH, generator=torch.Generator().manual_seed(2))
EXPECTED = (INPUTS @ WEIGHTS).half().float()
ROWS, SUMS = "key.rows", "key.sums"


class Transform:
    """A linear map that remembers how many rows it was asked for."""

    def __init__(self):
        self.computed = 0

    def __call__(self, inputs):
        self.computed += len(inputs)
        return torch.stack([row @ WEIGHTS for row in inputs])


def table(folder=None, transform=None, inputs=INPUTS):
    return FeatureTable(
        inputs, transform or Transform(), width=WIDTH, key="key", folder=folder
    )


def index(*rows):
    return torch.tensor(rows, dtype=torch.int64)


@pytest.fixture(params=["memory", "disk"])
def folder(request, tmp_path):
    return tmp_path / "cache" if request.param == "disk" else None


def test_rows_are_the_transform_rounded_to_float16(folder):
    rows = table(folder)[index(3, 39, 0)]
    assert rows.dtype == torch.float32
    torch.testing.assert_close(rows, EXPECTED[[3, 39, 0]], atol=0, rtol=2e-3)
    assert torch.equal(rows, rows.half().float())


def test_only_missing_rows_are_computed(folder):
    transform = Transform()
    features = table(folder, transform)
    for rows in ([1, 2], [2, 3, 1], [3]):
        features[index(*rows)]
    assert transform.computed == 3


def test_no_rows_cost_nothing(folder):
    transform = Transform()
    assert table(folder, transform)[index()].shape == (0, WIDTH)
    assert transform.computed == 0


def test_a_row_asked_for_twice_comes_twice(folder):
    transform = Transform()
    rows = table(folder, transform)[index(5, 5)]
    assert torch.equal(rows[0], rows[1])
    assert transform.computed == 1


def test_the_next_process_finds_the_rows_and_their_bits(tmp_path):
    fresh = table(tmp_path)[index(1, 2, 30)]
    transform = Transform()
    assert torch.equal(table(tmp_path, transform)[index(1, 2, 30)], fresh)
    assert transform.computed == 0


def test_bits_are_the_same_whether_cached_or_fresh_and_in_any_order(tmp_path):
    table(tmp_path)[index(*range(0, COUNT, 3))]
    mixed = table(tmp_path)[torch.arange(COUNT)]
    backwards = table()[torch.arange(COUNT).flip(0)].flip(0)
    assert torch.equal(mixed, backwards)


@pytest.mark.parametrize(
    "damage",
    [
        lambda rows: rows.__setitem__((7, 2), rows[7, 2] + 1),
        lambda rows: rows.__setitem__(7, 0),
    ],
    ids=["one value", "a hole"],
)
def test_a_row_that_does_not_fit_its_sum_is_computed_again(tmp_path, damage):
    right = table(tmp_path)[index(6, 7)]
    stored = np.memmap(tmp_path / ROWS, np.float16, "r+", shape=(COUNT, WIDTH))
    damage(stored)
    stored.flush()
    transform = Transform()
    assert torch.equal(table(tmp_path, transform)[index(6, 7)], right)
    assert transform.computed == 1
    assert torch.equal(table(tmp_path, Transform())[index(6, 7)], right)


def test_a_row_of_zeros_can_be_stored(tmp_path):
    table(tmp_path, inputs=torch.zeros(COUNT, 3))[index(4)]
    transform = Transform()
    table(tmp_path, transform, inputs=torch.zeros(COUNT, 3))[index(4)]
    assert transform.computed == 0


def test_two_tables_at_once_agree(tmp_path):
    first, second = table(tmp_path), table(tmp_path)
    a, b = first[index(*range(20))], second[index(*range(10, 30))]
    assert torch.equal(a[10:], b[:10])
    transform = Transform()
    table(tmp_path, transform)[index(*range(30))]
    assert transform.computed == 0


def test_rows_of_another_process_are_found_while_we_go_on(tmp_path):
    transform = Transform()
    ours = table(tmp_path, transform)
    ours[index(4, 6)]  # neighbours of 5 on its page of memory
    theirs = table(tmp_path)[index(5, 7)]
    assert ours.present == 4
    assert torch.equal(ours[index(5, 7)], theirs)
    assert transform.computed == 2


class Meeting(Transform):
    """Waits for another to come as well, in vain if only one may be here."""

    def __init__(self, barrier):
        super().__init__()
        self._barrier = barrier

    def __call__(self, inputs):
        with contextlib.suppress(threading.BrokenBarrierError):
            self._barrier.wait(0.2)
        return super().__call__(inputs)


def test_nothing_is_computed_by_two_at_once(tmp_path):
    meetings = [Meeting(threading.Barrier(2)) for _ in range(2)]
    meetings[1]._barrier = meetings[0]._barrier
    tables = [table(tmp_path, transform) for transform in meetings]
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(lambda each: each[torch.arange(COUNT)], tables)
    assert torch.equal(first, second)
    assert sum(transform.computed for transform in meetings) == COUNT


def test_a_run_waits_for_no_rows_that_are_computed_ahead(tmp_path, monkeypatch):
    def wait(seconds):
        raise AssertionError(f"the run waits {seconds} s")

    class Ahead(Transform):
        """Meets a run that wants rows in the midst of its own."""

        def __call__(self, inputs):
            assert torch.equal(table(tmp_path)[index(1, 9)], EXPECTED[[1, 9]])
            return super().__call__(inputs)

    monkeypatch.setattr(features_module.time, "sleep", wait)
    ahead = Ahead()
    table(tmp_path, ahead).complete(range(8))
    assert ahead.computed == 8
    assert table(tmp_path).present == 9


def test_a_process_that_was_stopped_stops_no_other(tmp_path, monkeypatch):
    monkeypatch.setattr(features_module, "PATIENCE_SECONDS", 0.01)
    features = table(tmp_path)
    with (tmp_path / "key.lock").open("a") as stopped:
        assert features_module.locks(stopped)
        assert torch.equal(features[index(1)], table()[index(1)])


def test_progress_is_told_for_what_is_computed_only(folder, monkeypatch):
    monkeypatch.setattr(features_module, "CHUNK_ROWS", 8)
    told = []
    features = table(folder)
    features[index(*range(8))]
    features.on_progress = lambda: told.append(features.present)
    features[torch.arange(COUNT)]
    features[torch.arange(COUNT)]
    assert told == [16, 24, 32, 40]


@pytest.mark.long("real runs")
def test_a_killed_process_leaves_no_wrong_row(tmp_path):
    code = f"""
        import os, signal, torch
        from pathlib import Path
        from dpsgd_explorer.training.datasets import features
        write = features._write_at
        def killed(file, index, rows):
            write(file, index[:3], rows[:3])
            if file.suffix == {ROWS[3:]!r}:
                write(file, index, rows)
            else:
                os.kill(os.getpid(), signal.SIGKILL)
        features._write_at = killed
        inputs = torch.ones({COUNT}, 3)
        def transform(x):
            return x.sum(1, keepdim=True).repeat(1, {WIDTH})
        table = features.FeatureTable(
            inputs, transform, width={WIDTH}, key="key", folder=Path({str(tmp_path)!r})
        )
        table[torch.arange(10)]
    """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    assert subprocess.run(command).returncode == -signal.SIGKILL
    transform = Transform()
    features = table(tmp_path, transform, inputs=torch.ones(COUNT, 3))
    assert torch.equal(features[torch.arange(3)], torch.full((3, WIDTH), 3.0))
    features[torch.arange(10)]
    assert transform.computed == 7


def test_a_full_disk_does_not_end_the_run(tmp_path, monkeypatch, caplog):
    def full(*args):
        raise OSError(28, "No space left on device")

    transform = Transform()
    features = table(tmp_path, transform)
    monkeypatch.setattr(os, "pwrite", full)
    rows = features[index(1, 2)]
    features[index(3)]
    assert torch.equal(rows, table()[index(1, 2)])
    assert torch.equal(features[index(1, 2)], rows)
    assert transform.computed == 3
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "No space left" in caplog.text


def test_a_folder_that_cannot_be_made_does_not_end_the_run(tmp_path, caplog):
    (tmp_path / "file").write_text("in the way")
    rows = table(tmp_path / "file" / "cache")[index(1, 2)]
    assert torch.equal(rows, table()[index(1, 2)])
    assert "only in memory" in caplog.text


def test_files_that_vanish_do_not_end_the_run(tmp_path, caplog):
    features = table(tmp_path)
    before = features[index(1)]
    (tmp_path / ROWS).unlink()
    assert torch.equal(features[index(1, 2)][:1], before)
    assert "no longer stored" in caplog.text


def test_the_files_are_as_long_as_their_rows_and_no_longer(tmp_path):
    table(tmp_path)
    assert (tmp_path / ROWS).stat().st_size == COUNT * WIDTH * 2
    assert (tmp_path / SUMS).stat().st_size == COUNT * 8


def test_sums_tell_rows_apart_and_are_never_the_mark_of_a_hole():
    rows = np.array([[0, 0], [0, 1], [1, 0]], dtype=np.float16)
    sums = row_sums(rows)
    assert len(set(sums.tolist())) == 3
    assert 0 not in sums


def test_the_key_depends_on_content_and_transform():
    keys = {content_key(a, b) for a in ("data", "other") for b in ("v1", "v2")}
    assert len(keys) == 4
    assert content_key("data", "v1") in keys
