"""A comparison of the engines: its figures, and the engines that it refuses."""

import pytest

from dpsgd_explorer.experiments.engines_config import CONTENDERS, EnginesConfig
from dpsgd_explorer.experiments.events import TIMES
from dpsgd_explorer.training import engine_comparison as engines_loop
from dpsgd_explorer.training.dp_sgd import train
from dpsgd_explorer.training.engine_comparison import EngineComparison

TINY = EnginesConfig(model="mlp", width=4, batch_size=3)
pytestmark = pytest.mark.usefixtures("brief")
TOKENS = EnginesConfig(model="lstm", width=4, batch_size=3, sequence_length=2)


@pytest.fixture(scope="module")
def tiny(brief):
    return list(EngineComparison(TINY).events())


@pytest.fixture(scope="module")
def tokens(brief):
    return list(EngineComparison(TOKENS).events())


def found_in(events):
    return {e.data["engine"]: e.data for e in events if e.kind == "evaluation"}


def test_each_engine_is_measured_once_after_the_ordinary_step(tiny):
    found = found_in(tiny)
    assert tuple(found) == CONTENDERS
    assert [found[name]["step"] for name in found] == [1, 2, 3, 4, 5]
    assert found["ordinary"]["ratio"] == 1.0
    for one in found.values():
        assert one["milliseconds"] > 0
        assert one["peak_bytes"] > 0
        assert one["ratio_low"] <= one["ratio"] <= one["ratio_high"]


def test_the_engines_compute_the_same_and_it_is_said_how_nearly(tiny):
    found = found_in(tiny)
    assert found["ordinary"]["difference"] is found["hooks"]["difference"] is None
    apart = [found[name]["difference"] for name in CONTENDERS[2:]]
    assert max(apart) < 1e-13
    assert tiny[-1].data["difference"] == max(apart)


@pytest.mark.long("real runs")
def test_an_engine_that_computes_something_else_is_found_out(monkeypatch):
    real = engines_loop.attached

    def planted(model, size, engine, **more):
        made, optimizer = real(model, size, engine, **more)
        if engine == "vmap":
            optimizer.register_step_post_hook(
                lambda *_: next(model.parameters()).grad.mul_(1.001)
            )
        return made, optimizer

    monkeypatch.setattr(engines_loop, "attached", planted)
    found = found_in(EngineComparison(TINY).events())
    assert found["extending"]["difference"] < 1e-13
    assert 1e-6 < found["vmap"]["difference"] < 1e-2


def test_layers_say_which_way_they_chose_and_why(tiny):
    found = found_in(tiny)
    layers = found["hooks"]["layers"]
    assert [one["layer"] for one in layers] == ["0", "2", "4"]
    assert layers == found["extending"]["layers"]
    assert all(one["way"] in ("ghost", "instantiate") for one in layers)
    assert all(one["reason"] and one["ghost"] > 0 for one in layers)
    assert found["vmap"]["layers"] == found["ordinary"]["layers"] == []


@pytest.mark.long("real runs")
def test_an_engine_that_refuses_is_told_with_its_message(tokens):
    found = found_in(tokens)
    assert found["vmap"]["refused"].startswith("lstm (LSTM) cannot be run by")
    assert found["vmap"]["ratio"] is found["vmap"]["peak_bytes"] is None
    assert found["microbatch"]["difference"] < 1e-13
    assert all(not found[name]["refused"] for name in found if name != "vmap")


@pytest.mark.long("real runs")
def test_an_engine_that_would_hold_too_much_is_not_tried(monkeypatch):
    monkeypatch.setattr(engines_loop, "MOST_HELD_BYTES", 1000)
    found = found_in(EngineComparison(TINY).events())
    assert "the gradients of all samples together" in found["vmap"]["refused"]
    assert found["microbatch"]["refused"] == ""


def test_only_what_is_measured_may_differ_from_run_to_run(tiny):
    told = {name for event in tiny for name in event.timeless()[1]}
    assert "difference" in told
    assert not told & TIMES


@pytest.mark.parametrize("engine", ["extending", "vmap", "microbatch"])
def test_a_training_comes_to_the_same_with_every_engine(adult, engine):
    usual, other = (
        list(train(adult(steps=3, engine=name))) for name in ("hooks", engine)
    )
    assert [e.kind for e in other] == [e.kind for e in usual]
    ends = [events[-1].data for events in (usual, other)]
    assert ends[1]["test_loss"] == pytest.approx(ends[0]["test_loss"], rel=1e-5)
    told = [end["receipt"]["options"]["engine"] for end in ends]
    assert told == ["hooks", engine]
