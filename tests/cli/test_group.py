"""train by the processes of torchrun: one run, one message."""

import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from dpsgd_explorer.cli.main import main
from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.training.dp_sgd import TrainingExperiment
from tests.cli.test_main import SMALL

ROOT = Path(__file__).parents[2]
CLIPPED = SMALL | {"noise_multiplier": 0, "clipping_fn": "Abadi", "audit": 0}
#: How far numbers may lie apart: ranks add samples in another order, in float32, and
#: twelve steps of learning rate 8 carry the last bits on.
RELATIVE, ABSOLUTE = 1e-5, 1e-6
#: Where one rank alone lacks its data.
FAULTY = """
import os, sys
from dpsgd_explorer.cli.main import main
from dpsgd_explorer.errors import DataError
from dpsgd_explorer.training import inputs

def load(*arguments):
    raise DataError("adult.npz is not there.")

if os.environ["RANK"] == "1":
    inputs.load = load
sys.exit(main())
"""


#: Where something happens to one rank in mid-step, before it hands out its noisy slice.
MID_STEP = """
import os, signal, sys
from dpsgd_explorer.cli.main import main
from dpsgd_explorer.dp.noise.seeded import RankNoise

add_to, calls = RankNoise.add_to, []

def interrupted(*arguments):
    calls.append(arguments)
    if os.environ["RANK"] == "1" and len(calls) > 2:
        {happens}
    return add_to(*arguments)

RankNoise.add_to = interrupted
sys.exit(main())
"""
KILLED = MID_STEP.format(happens="os.kill(os.getpid(), signal.SIGKILL)")
#: torchrun is told to end, and ends its ranks.
ENDED = MID_STEP.format(happens="os.kill(os.getppid(), signal.SIGTERM); signal.pause()")


@pytest.fixture
def start(tmp_path):
    """Return what trains with two processes, and returns how they ended."""

    def run(config, *options, program=("-m", "dpsgd_explorer")):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        torchrun = ["-m", "torch.distributed.run", "--nproc-per-node=2"]
        train = [f"--master-port={port}", *program, "train", "--config", "-"]
        own = {"DPSGD_INSTANCE_DIR": str(tmp_path), "PYTHONPATH": str(ROOT)}
        return subprocess.run(
            [sys.executable, *torchrun, *train, *map(str, options)],
            input=json.dumps(config),
            env=os.environ | own | {"OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            check=False,
        )

    return run


def close(found, expected):
    """Compare values as JSON has them; numbers to RELATIVE of their size."""
    if isinstance(expected, dict):
        assert found.keys() == expected.keys()
        for name in expected:
            close(found[name], expected[name])
    elif isinstance(expected, list):
        for one, other in zip(found, expected, strict=True):
            close(one, other)
    elif isinstance(expected, float):
        assert found == pytest.approx(expected, rel=RELATIVE, abs=ABSOLUTE)
    else:
        assert found == expected


@pytest.mark.long("real runs")
def test_two_processes_write_the_run_of_one(start, tmp_path):
    events, weights = tmp_path / "events.jsonl", tmp_path / "model.safetensors"
    ended = start(CLIPPED, "--events", events, "--weights", weights)
    assert ended.returncode == 0, ended.stderr
    alone = TrainingExperiment(TrainingConfig.parse(CLIPPED))
    expected = [json.loads(json.dumps(vars(event))) for event in alone.events()]
    found = [json.loads(line) for line in events.read_text().splitlines()]
    assert found[-1]["data"]["receipt"].pop("world_size") == 2
    assert expected[-1]["data"]["receipt"].pop("world_size") == 1
    for each in found + expected:
        each["data"].pop("seconds", None)
    close(found, expected)
    torch.testing.assert_close(
        load_file(weights), alone.weights(), rtol=RELATIVE, atol=ABSOLUTE
    )
    lines = ended.stdout.splitlines()
    assert len(lines) == len(set(lines)) == SMALL["evaluations"] + 2


@pytest.mark.long("real runs")
def test_settings_that_are_wrong_are_told_once(start):
    ended = start(CLIPPED | {"private": False})
    assert ended.returncode != 0
    assert ended.stderr.count("train: rank") == 1
    assert "private must be True under torchrun" in ended.stderr


@pytest.mark.long("real runs")
def test_an_error_of_one_rank_ends_all_with_one_message(start, tmp_path):
    program = tmp_path / "faulty.py"
    program.write_text(FAULTY)
    ended = start(CLIPPED, program=[str(program)])
    assert ended.returncode != 0
    assert ended.stderr.count("train: rank") == 1
    assert "train: rank 1: adult.npz is not there." in ended.stderr


@pytest.mark.long("real runs")
def test_a_killed_rank_ends_the_run_with_one_message_and_no_half_step(start, tmp_path):
    program = tmp_path / "killed.py"
    program.write_text(KILLED)
    events, state = tmp_path / "events.jsonl", tmp_path / "run.pt"
    noisy = SMALL | {"noise_multiplier": 2.0, "audit": 0}
    files = "--events", events, "--checkpoint", state
    ended = start(noisy, *files, program=[str(program)])
    assert ended.returncode != 0
    assert ended.stderr.count("train: ") == 1
    # It notices, or torchrun is quicker and ends it.
    [told] = re.findall(
        "train: rank 0: (.+), so|train: rank 0: (.+)[.] S", ended.stderr
    )
    assert "".join(told) in ("another rank does not answer", "stopped by SIGTERM")
    assert "pair.cc" not in ended.stderr.partition("Start all ranks")[0]
    told = [json.loads(line) for line in events.read_text().splitlines()]
    assert max(each["data"].get("step", 0) for each in told) == 2
    resumed = start(noisy, *files)
    assert resumed.returncode == 0, resumed.stderr
    told = [json.loads(line) for line in events.read_text().splitlines()]
    steps = [each["data"]["step"] for each in told if each["kind"] == "step"]
    assert steps == list(range(1, SMALL["steps"] + 1))
    done = told[-1]["data"]["receipt"]["done"]
    assert sum(phase["steps"] for phase in done) == SMALL["steps"]


@pytest.mark.long("real runs")
def test_one_process_says_why_it_does_not_go_on_from_two(start, tmp_path, capsys):
    state, config = tmp_path / "run.pt", tmp_path / "config.json"
    noisy = SMALL | {"noise_multiplier": 2.0, "audit": 0}
    assert start(noisy, "--checkpoint", state).returncode == 0
    config.write_text(json.dumps(noisy))
    assert main(["train", "--config", str(config), "--checkpoint", str(state)]) == 2
    message = capsys.readouterr().err
    assert "2 ranks drew separate seeded noise" in message
    assert "torchrun --nproc-per-node 2, or start the run again" in message


@pytest.mark.long("real runs")
def test_a_group_that_is_told_to_end_says_so_once(start, tmp_path):
    program = tmp_path / "ended.py"
    program.write_text(ENDED)
    noisy = SMALL | {"noise_multiplier": 2.0, "audit": 0}
    ended = start(noisy, program=[str(program)])
    assert ended.returncode != 0
    assert ended.stderr.count("train: rank") == 1
    assert "stopped by SIGTERM. Start all ranks again" in ended.stderr
