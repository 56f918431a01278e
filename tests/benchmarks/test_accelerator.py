"""The rehearsal of ``benchmarks accelerator``: real steps of small models on a CPU."""

from functools import partial

import pytest
import torch

from benchmarks import __main__ as command
from benchmarks import record
from benchmarks.accelerator import measure, tables
from benchmarks.accelerator.cases import CASES, REHEARSED
from benchmarks.accelerator.ways import FEATURES, OURS, PEERS, setting_on
from benchmarks.own_process import result_of

EAGER = [way for way in FEATURES if way != "compiled"]


def test_each_model_has_a_rehearsal_with_the_same_kinds_of_layers():
    assert list(REHEARSED) == list(CASES)
    for name, case in CASES.items():
        with torch.device("meta"):
            kinds = {type(module) for module in case.make().modules()}
        assert {type(module) for module in REHEARSED[name].make().modules()} == kinds


@pytest.mark.parametrize(
    ("name", "way"),
    [("gpt2", way) for way in ("hooks", *EAGER)]
    + [(name, "hooks") for name in ("vit", "resnet50", "lora", "lstm", "bert")],
)
def test_a_row_compares_steps_of_both(name, way):
    rows = measure.rows(name, way, "cpu")
    assert [row["parts"] for row in rows] == ([1] if way in FEATURES else [1, 4])
    assert all(row["ratio"] > 0 and row["ms"] > 0 for row in rows)
    assert tables.table({**record.origin(), **document(rows=rows)})


def test_the_private_way_is_private_and_the_ordinary_way_is_not():
    case, setting = REHEARSED["gpt2"], setting_on("cpu", "gpt2")
    moved = {}
    for name, make in (
        ("hooks", OURS["hooks"].make),
        ("ordinary", OURS["hooks"].reference),
    ):
        models = []
        own = partial(kept, case.make, models)
        part = make(type(case)(**{**vars(case), "make": own}), setting)
        before = weights(models[0])
        part(False)
        assert torch.equal(weights(models[0]), before)  # the batch has not ended
        part(True)
        moved[name] = weights(models[0]) - before
    assert not torch.allclose(moved["hooks"], moved["ordinary"])


def kept(make, models):
    models.append(make())
    return models[-1]


def weights(model):
    return torch.cat([p.detach().flatten() for p in model.parameters()])


def test_the_largest_batch_is_found_to_a_sixteenth(monkeypatch):
    samples, tried = CASES["gpt2"].samples, []

    def fits(make, device):
        tried.append(make.args[0].samples)
        return tried[-1] <= 300

    monkeypatch.setattr(measure, "_fits", fits)
    [row] = measure.largest("gpt2", "hooks", "cuda")
    assert row["batch"] <= 300 < row["batch"] * 17 / 16 + 1
    assert not row["is_limit"]
    assert len(tried) == len(set(tried)) < 12
    monkeypatch.setattr(measure, "_fits", lambda make, device: True)
    [row] = measure.largest("gpt2", "hooks", "cuda")
    assert row == {
        "model": "gpt2",
        "way": "hooks",
        "batch": samples * measure.LARGEST_FACTOR,
        "is_limit": True,
    }
    monkeypatch.setattr(measure, "_fits", lambda make, device: False)
    assert measure.largest("gpt2", "hooks", "cuda")[0]["batch"] == 0


def test_no_memory_is_no_fit_and_another_error_is_an_error():
    def failing(error):
        raise error

    full = torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")
    assert not measure._fits(partial(failing, full), "cpu")
    with pytest.raises(RuntimeError, match="shape"):
        measure._fits(partial(failing, RuntimeError("wrong shape")), "cpu")


def test_models_come_in_order_of_importance_and_batches_last():
    tasks = list(measure._tasks(peers=True))
    fields = [field for field, _ in tasks]
    assert fields == sorted(fields, key=["noise", "rows", "largest"].index)
    assert len([a for f, a in tasks if f == "rows" and a[0] == "vit"]) == 1 + len(PEERS)
    assert len(list(measure._tasks(peers=False))) < len(tasks)


@pytest.mark.skipif(torch.cuda.is_available(), reason="it would measure")
def test_without_a_gpu_nothing_is_stored(monkeypatch, capsys):
    monkeypatch.setattr(record, "write", lambda *given: pytest.fail("stored"))
    command.main(["accelerator"])
    assert "--device cpu" in capsys.readouterr().out


def test_a_process_that_takes_too_long_or_fails_is_named():
    with pytest.raises(RuntimeError, match="did not end within 0 s"):
        result_of(measure.MODULE, "noise", "cpu", timeout_s=0.01)
    with pytest.raises(RuntimeError, match="KeyError"):
        result_of(measure.MODULE, "rows", "nothing", "hooks", "cpu")


def document(**parts):
    empty = {"date": "today", "device": "CPU", "memory": "of all", "rows": []}
    return {**empty, "largest": [], **parts}


def test_the_table_shows_what_there_is():
    row = {
        "model": "vit", "way": "hooks", "samples": 64, "parts": 1, "ordinary_ms": 10.0,
        "ms": 10.4, "ratio": 1.04, "low": 1.03, "high": 1.05, "ordinary_gib": 10.0,
        "gib": 11.0, "queued_ms": 5.0, "waits": 0,
    }  # fmt: skip
    text = tables.table({**record.origin(), **document(rows=[row])})
    assert "**1.040**" in text
    assert tables.NO_PEERS in text
    peer = row | {"way": "opacus_ghost", "ratio": 2.5, "gib": 15.0}
    failed = {"model": "gpt2", "way": "fastdp", "skipped": "RuntimeError: no"}
    batches = [{"model": "vit", "way": "hooks", "batch": 1024, "is_limit": False}]
    parts = document(rows=[row, peer, failed], largest=batches)
    text = tables.table({**record.origin(), **parts})
    assert "| **1.04** / 1.10, 1,024 | **2.50** / 1.50, – |" in text
    assert "- GPT-2 small, FastDP, MixOpt, model in bfloat16: RuntimeError: no" in text
    assert tables.NO_PEERS not in text
